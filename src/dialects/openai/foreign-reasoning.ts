import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { sealedPrefix } from "../../operations/conversation/conversation.ts";
import { elementsOf, lastMember, membersOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { removals, type Splice } from "../../operations/splice.ts";

/**
 * What must be cut out of a request before it goes to an upstream that speaks this API itself: what the gateway sealed for the client when
 * an upstream of another API answered, earlier in the same conversation. Many upstreams refuse fields that they do not know. The text of
 * that reasoning goes with it: no provider gets the reasoning of another. One that insists on some (`needsReasoning`) gets an empty one.
 */
export function foreignReasoning({ body, members }: ChatRequest, needsReasoning: boolean): readonly Splice[] {
  const messages = lastMember(members, "messages");
  if (messages?.kind !== "array" || !holdsSealed(body, messages)) return none;
  const cuts: Splice[] = [];
  for (const message of elementsOf(body, messages.start, messages.end)) {
    if (message.kind === "object" && holdsSealed(body, message)) cuts.push(...messageCuts(body, message, needsReasoning));
  }
  return cuts;
}

function messageCuts(body: Uint8Array, message: JsonSpan, needsReasoning: boolean): readonly Splice[] {
  const members = membersOf(body, message.start, message.end);
  const calls = lastMember(members, "tool_calls");
  const isSealed = (member: JsonMember): boolean => member.key === "reasoning_details" && holdsSealed(body, member);
  const texts = members.some(isSealed) ? members.filter(({ key }) => key === "reasoning_content" || key === "reasoning") : [];
  const emptied = needsReasoning ? texts.filter(({ key }) => key === "reasoning_content") : [];
  return [
    ...memberCuts(members, (member) => isSealed(member) || (texts.includes(member) && !emptied.includes(member))),
    ...emptied.map(({ start, end }) => ({ start, end, text: '""' })),
    ...(calls?.kind === "array" ? elementsOf(body, calls.start, calls.end) : []).flatMap((call) => callCuts(body, call)),
  ];
}

function callCuts(body: Uint8Array, call: JsonSpan): readonly Splice[] {
  if (call.kind !== "object") return none;
  return memberCuts(membersOf(body, call.start, call.end), (member) => member.key === "extra_content" && holdsSealed(body, member));
}

function memberCuts(members: readonly JsonMember[], isCut: (member: JsonMember) => boolean): readonly Splice[] {
  if (!members.some(isCut)) return none;
  const spans = members.map((member) => ({ start: member.keyStart, end: member.end, isKept: !isCut(member) }));
  return removals(
    spans,
    spans.filter(({ isKept }) => isKept),
  );
}

/**
 * Most requests hold none, and this search is all that they cost. It looks at one byte in ten (Horspool): by the byte at the end of the
 * window it knows how far the word is away at least. To decode the body first would cost more than to scan it as JSON.
 */
function holdsSealed(body: Uint8Array, { start, end }: JsonSpan): boolean {
  for (let last = start + mark.length - 1; last < end; last += skips[body[last]!]!) {
    let at = mark.length - 1;
    while (at >= 0 && body[last - mark.length + 1 + at] === mark[at]) at--;
    if (at < 0) return true;
  }
  return false;
}

const mark = new TextEncoder().encode(sealedPrefix);
const skips = new Uint8Array(256).fill(mark.length);
mark.subarray(0, -1).forEach((byte, at) => (skips[byte] = mark.length - 1 - at));

const none: readonly Splice[] = [];
