import fc from "fast-check";
import type { Conversation, ConversationTurn, Part } from "../../src/operations/conversation/conversation.ts";

/** A conversation that asks for nothing. */
export const emptyConversation: Conversation = {
  turns: [],
  tools: [],
  toolChoice: null,
  parallelToolCalls: null,
  outputFormat: null,
  sampling: {
    temperature: null,
    topP: null,
    topK: null,
    presencePenalty: null,
    frequencyPenalty: null,
    seed: null,
    topLogprobs: null,
  },
  reasoning: null,
  maxOutputTokens: null,
  stop: [],
  stream: false,
  endUser: null,
  promptCacheKey: null,
  serviceTier: null,
  verbosity: null,
  uncarried: [],
};

/** Turns of all roles, with what each may contain; `dialect` made the signatures of half of the reasoning. */
export function anyTurns(dialect: string): fc.Arbitrary<ConversationTurn[]> {
  const text = fc
    .oneof(fc.constantFrom("", " ", "a", "b"), fc.string({ maxLength: 8 }))
    .map((value): Part => ({ kind: "text", text: value }));
  const cached = fc.constant<Part>({ kind: "text", text: "cached", cache: { ttl: null } });
  const image = fc.constant<Part>({ kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } });
  const file = fc
    .constantFrom("a.pdf", "a b.pdf", null)
    .map((name): Part => ({ kind: "file", name, source: { kind: "data", mediaType: "application/pdf", data: "AAAA" } }));
  const id = fc.constantFrom("one", "two", "three|four");
  const call = id.map((one): Part => ({ kind: "tool_call", id: one, name: "look", arguments: '{"a":1}' }));
  const result = id.map((one): Part => ({
    kind: "tool_result",
    callId: one,
    isError: false,
    content: [{ kind: "text", text: `of ${one}` }],
  }));
  const reasoning = fc
    .constantFrom(dialect, "another", null)
    .map((made): Part => ({ kind: "reasoning", text: "hm", signature: made === null ? null : { dialect: made, data: "c2ln" } }));
  const turn = (role: ConversationTurn["role"], part: fc.Arbitrary<Part>): fc.Arbitrary<ConversationTurn> =>
    fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => ({ role, parts }));
  return fc.array(
    fc.oneof(
      turn("system", text),
      turn("user", fc.oneof(text, cached, image, file)),
      turn("assistant", fc.oneof(text, call, reasoning)),
      turn("tool", result),
    ),
    { maxLength: 12 },
  );
}
