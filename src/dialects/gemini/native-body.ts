import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { sealedPrefix } from "../../operations/conversation/conversation.ts";
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
  if (includes(body, sealedPrefix)) replaceSealed(body, members, splices);
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
      if (!boundNames.has(bound.key) || bound.kind !== "number" || (valueOf(body, bound) as number) <= ceiling) continue;
      splices.push({ start: bound.start, end: bound.end, text: String(ceiling) });
      clampedTo = ceiling;
    }
  }
  return clampedTo;
}

function replaceSealed(body: Uint8Array, members: readonly JsonMember[], splices: Splice[]): void {
  const contents = lastMember(members, "contents");
  for (const content of contents?.kind === "array" ? elementsOf(body, contents.start, contents.end) : []) {
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
    if (!(valueOf(body, member) as string).startsWith(sealedPrefix)) continue;
    splices.push({ start: member.start, end: member.end, text: JSON.stringify(isCall ? unsignedCall : "") });
  }
}

const signatureNames: ReadonlySet<string> = new Set(["thoughtSignature", "thought_signature"]);

/** Looks for the hyphen first, which the base64 of images does not have. */
function includes(body: Uint8Array, text: string): boolean {
  const anchor = text.indexOf("-");
  for (let at = body.indexOf(hyphen); at !== -1; at = body.indexOf(hyphen, at + 1)) {
    let matched = 0;
    while (matched < text.length && body[at - anchor + matched] === text.charCodeAt(matched)) matched++;
    if (matched === text.length) return true;
  }
  return false;
}

const hyphen = 0x2d;
