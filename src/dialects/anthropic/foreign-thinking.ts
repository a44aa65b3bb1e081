import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { sealedPrefix } from "../../operations/conversation/conversation.ts";
import { elementsOf, lastMember, membersOf, valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { removals, type Splice } from "../../operations/splice.ts";

/**
 * What must be cut out of a request before it goes to an upstream that speaks this API itself: thinking that no such upstream has signed.
 * It comes from other upstreams, in earlier turns of the same conversation, and is refused. What is cut depends on each message alone, so
 * that the beginning of a conversation stays the same from turn to turn. `signs`: the upstream signs its thinking. Some that do not need
 * it back all the same.
 */
export function foreignThinking({ body, members }: ChatRequest, signs = true): readonly Splice[] {
  const messages = lastMember(members, "messages");
  if (messages?.kind !== "array") return [];
  const cuts: Splice[] = [];
  const kept: JsonSpan[] = [];
  const elements = elementsOf(body, messages.start, messages.end);
  for (const message of elements) {
    const blocks = assistantBlocks(body, message);
    const own = blocks.filter((block) => !isForeign(body, block, signs));
    // A message of nothing else would be left without content.
    if (own.length === 0 && blocks.length > 0) continue;
    kept.push(message);
    if (own.length < blocks.length) cuts.push(...removals(blocks, own));
  }
  return kept.length === elements.length || kept.length === 0 ? cuts : [...cuts, ...removals(elements, kept)];
}

function assistantBlocks(body: Uint8Array, message: JsonSpan): readonly JsonSpan[] {
  if (message.kind !== "object") return [];
  const members = membersOf(body, message.start, message.end);
  const content = lastMember(members, "content");
  if (content?.kind !== "array" || textOf(body, lastMember(members, "role")) !== "assistant") return [];
  return elementsOf(body, content.start, content.end);
}

function isForeign(body: Uint8Array, block: JsonSpan, signs: boolean): boolean {
  if (block.kind !== "object") return false;
  const members = membersOf(body, block.start, block.end);
  switch (textOf(body, lastMember(members, "type"))) {
    case "thinking":
      return isForeignValue(textOf(body, lastMember(members, "signature")), signs);
    case "redacted_thinking":
      return isForeignValue(textOf(body, lastMember(members, "data")), true);
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
