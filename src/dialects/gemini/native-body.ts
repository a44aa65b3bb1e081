import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { sealedBase64Prefix, sealedPrefix } from "../../operations/conversation/conversation.ts";
import { elementsOf, lastMember, membersOf, valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { splice, type Splice } from "../../operations/splice.ts";
import { unsignedCall } from "./contents.ts";

export interface SplicedBody {
  readonly body: Uint8Array;
  readonly clampedTo: number | null;
}

/**
 * The body of a client that speaks this API: its own bytes, with too large a number of tokens lowered, and without the signatures that
 * the gateway sealed: those are of other providers, who answered earlier in the conversation.
 */
export function spliceGenerate({ body, members }: ChatRequest, model: string, ceiling: number | null): SplicedBody {
  const splices: Splice[] = [];
  // The path names the model; a body that repeats it must not name another.
  for (const { key, start, end } of members) if (key === "model") splices.push({ start, end, text: JSON.stringify(`models/${model}`) });
  const clampedTo = clamp(body, members, ceiling, splices);
  replaceSealed(body, members, splices);
  return { body: splice(body, splices), clampedTo };
}

/** The names of the API in the spelling of JSON, and that of its definition, which it takes as well. */
const configNames: ReadonlySet<string> = new Set(["generationConfig", "generation_config"]);
const boundNames: ReadonlySet<string> = new Set(["maxOutputTokens", "max_output_tokens"]);

function clamp(body: Uint8Array, members: readonly JsonMember[], ceiling: number | null, splices: Splice[]): number | null {
  if (ceiling === null) return null;
  let clampedTo: number | null = null;
  for (const config of members) {
    if (!configNames.has(config.key) || config.kind !== "object") continue;
    for (const bound of membersOf(body, config.start, config.end)) {
      // It may be written as a string.
      if (!boundNames.has(bound.key) || !(Number(valueOf(body, bound)) > ceiling)) continue;
      splices.push({ start: bound.start, end: bound.end, text: String(ceiling) });
      clampedTo = ceiling;
    }
  }
  return clampedTo;
}

function replaceSealed(body: Uint8Array, members: readonly JsonMember[], splices: Splice[]): void {
  const contents = lastMember(members, "contents");
  if (contents?.kind !== "array" || !mayHoldSealed(body, contents)) return;
  for (const content of elementsOf(body, contents.start, contents.end)) {
    if (content.kind !== "object") continue;
    const parts = lastMember(membersOf(body, content.start, content.end), "parts");
    for (const part of parts?.kind === "array" ? elementsOf(body, parts.start, parts.end) : []) replaceIn(body, part, splices);
  }
}

/** A call needs some signature; elsewhere an empty one is none. */
function replaceIn(body: Uint8Array, part: JsonSpan, splices: Splice[]): void {
  if (part.kind !== "object") return;
  const members = membersOf(body, part.start, part.end);
  const isCall = members.some(({ key }) => key === "functionCall" || key === "function_call");
  for (const member of members) {
    if (!signatureNames.has(member.key) || member.kind !== "string") continue;
    const signature = valueOf(body, member) as string;
    if (!signature.startsWith(sealedPrefix) && !signature.startsWith(sealedBase64Prefix)) continue;
    splices.push({ start: member.start, end: member.end, text: JSON.stringify(isCall ? unsignedCall : "") });
  }
}

const signatureNames: ReadonlySet<string> = new Set(["thoughtSignature", "thought_signature"]);

/**
 * Most requests hold none, and this search is all that they cost. It looks at one byte in ten (Horspool): by the byte at the end of the
 * window it knows how far either mark is away at least. Both begin with a quote, so that it leaps over what has none: the base64 of media.
 */
function mayHoldSealed(body: Uint8Array, { start, end }: JsonSpan): boolean {
  for (let at = start; at !== -1 && at < end; at = body.indexOf(quote, at)) {
    const stretchEnd = Math.min(end, at + stretchBytes);
    while (at + markLength <= end && at < stretchEnd) {
      if (isAt(body, at, sealedMark) || isAt(body, at, base64Mark)) return true;
      at += skips[body[at + markLength - 1]!]!;
    }
    if (at + markLength > end) return false;
  }
  return false;
}

function isAt(body: Uint8Array, at: number, mark: Uint8Array): boolean {
  let matched = 0;
  while (matched < markLength && body[at + matched] === mark[matched]) matched++;
  return matched === markLength;
}

const quote = 0x22;
const stretchBytes = 4096;
const markLength = sealedPrefix.length + 1;
const [sealedMark, base64Mark] = [markOf(sealedPrefix), markOf(sealedBase64Prefix)];
const skips = new Uint8Array(256).fill(markLength);
for (let at = 0; at < markLength - 1; at++) for (const mark of [sealedMark, base64Mark]) skips[mark[at]!] = markLength - 1 - at;

/** Both are of the same length: what is left out is looked at when they are found. */
function markOf(prefix: string): Uint8Array {
  return new TextEncoder().encode(`"${prefix}`).subarray(0, markLength);
}
