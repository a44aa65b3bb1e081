import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { sealedPrefix } from "../../operations/conversation/conversation.ts";
import { elementsOf, lastMember, membersOf, valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { removals, type Splice } from "../../operations/splice.ts";

/**
 * What must be cut out of a request before it goes to an upstream that speaks this API itself: thinking that no such upstream has signed.
 * It comes from other upstreams, in earlier turns of the same conversation, and is refused. What is cut depends on each message alone, so
 * that the beginning of a conversation stays the same from turn to turn.
 */
export function foreignThinking({ body, members }: ChatRequest, kept: KeptThinking = "signed"): readonly Splice[] {
  const messages = lastMember(members, "messages");
  if (messages?.kind !== "array") return [];
  const cuts: Splice[] = [];
  const left: JsonSpan[] = [];
  const elements = elementsOf(body, messages.start, messages.end);
  for (const message of elements) {
    const blocks = assistantBlocks(body, message);
    const own = blocks.filter((block) => !isForeign(body, block, kept));
    // A message of nothing else would be left without content.
    if (own.length === 0 && blocks.length > 0) continue;
    left.push(message);
    if (own.length < blocks.length) cuts.push(...removals(blocks, own));
  }
  return left.length === elements.length || left.length === 0 ? cuts : [...cuts, ...removals(elements, left)];
}

/** What the upstream gets back. Some that do not sign their thinking need it all the same, and one may have refused all of it. */
export type KeptThinking = "signed" | "unsigned" | "none";

function assistantBlocks(body: Uint8Array, message: JsonSpan): readonly JsonSpan[] {
  if (message.kind !== "object") return [];
  const members = membersOf(body, message.start, message.end);
  const content = lastMember(members, "content");
  if (content?.kind !== "array" || textOf(body, lastMember(members, "role")) !== "assistant") return [];
  return elementsOf(body, content.start, content.end);
}

function isForeign(body: Uint8Array, block: JsonSpan, kept: KeptThinking): boolean {
  if (block.kind !== "object") return false;
  const members = membersOf(body, block.start, block.end);
  switch (textOf(body, lastMember(members, "type"))) {
    case "thinking":
      return kept === "none" || isForeignValue(textOf(body, lastMember(members, "signature")), kept === "signed");
    case "redacted_thinking":
      return kept === "none" || isForeignValue(textOf(body, lastMember(members, "data")), true);
    default:
      return false;
  }
}

function isForeignValue(value: string | null, signs: boolean): boolean {
  return value === null || value === "" ? signs : value.startsWith(sealedPrefix);
}

function textOf(body: Uint8Array, member: JsonMember | undefined): string | null {
  return member?.kind === "string" ? (valueOf(body, member) as string) : null;
}
