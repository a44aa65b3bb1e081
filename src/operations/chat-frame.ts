import type { ChatAsk } from "./chat.ts";
import { lastMember } from "./json.ts";
import { splice } from "./splice.ts";

/** What every chunk of one stream has in common. */
export interface StreamIdentity {
  readonly id: unknown;
  readonly created: unknown;
  readonly model: unknown;
}

export function identityOf(frame: Uint8Array): StreamIdentity | null {
  const chunk = chunkOf(frame);
  return chunk === null ? null : { id: chunk["id"], created: chunk["created"], model: chunk["model"] };
}

/** The chunk of another stream as if this one had gone on: its identity, and only the text the client does not have. */
export function adopted(frame: Uint8Array, identity: StreamIdentity, content: string, resumed: boolean): Uint8Array {
  const chunk = chunkOf(frame);
  if (chunk === null) return frame;
  const choices = Array.isArray(chunk["choices"]) ? (chunk["choices"] as readonly Record<string, unknown>[]) : [];
  const joined = {
    ...chunk,
    ...identity,
    choices: choices.map((choice) => ({ ...choice, delta: content === "" ? {} : { content } })),
    ...(resumed ? { gateway: { resumed: true } } : undefined),
  };
  return encoder.encode(`data: ${JSON.stringify(joined)}\n\n`);
}

/** The same request with an unfinished assistant message at its end, for a model that goes on from there. */
export function continued(ask: ChatAsk, text: string): ChatAsk | null {
  const messages = lastMember(ask.members, "messages");
  if (messages === undefined) return null;
  const turn = `,{"role":"assistant","content":${JSON.stringify(text)}}`;
  const at = messages.end - 1;
  const grown = encoder.encode(turn).length;
  return {
    ...ask,
    body: splice(ask.body, [{ start: at, end: at, text: turn }]),
    document: { start: ask.document.start, end: ask.document.end + grown },
    members: ask.members.map((member) => ({
      ...member,
      keyStart: member.keyStart > at ? member.keyStart + grown : member.keyStart,
      start: member.start > at ? member.start + grown : member.start,
      end: member.end > at ? member.end + grown : member.end,
    })),
  };
}

function chunkOf(frame: Uint8Array): Record<string, unknown> | null {
  try {
    return JSON.parse(decoder.decode(frame.subarray(6))) as Record<string, unknown>;
  } catch {
    return null;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
