import { expect, test } from "bun:test";
import fc from "fast-check";
import { encodeChatBody } from "../../../src/dialects/openai/chat-body.ts";
import { usualQuirks } from "../../../src/dialects/presets.ts";
import type { StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Part } from "../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { askOf, chunksOf, contextOf, conversationOf, surface } from "../../support/chat-surface.ts";
import { joinedBytes } from "../../support/messages.ts";
import { anyText, numRuns } from "../../support/properties.ts";

/**
 * The same request, read as a conversation and written again in its own API. No request of a client takes that way unless another channel
 * goes on with an answer; but what survives it is what every other API is given.
 */
function roundTrip(body: object): Record<string, unknown> {
  const conversation = conversationOf(body);
  const quirks = { ...usualQuirks, developerRole: true, reasoningHistory: true, tokenBound: "max_completion_tokens" } as const;
  const encoded = encodeChatBody(conversation, { model: "m", maxOutputTokens: conversation.maxOutputTokens, quirks, meterStream: false });
  if (isFailure(encoded)) throw new Error(encoded.detail);
  expect(encoded.dropped).toEqual([]);
  return JSON.parse(new TextDecoder().decode(encoded.body)) as Record<string, unknown>;
}

const words = anyText({ minLength: 1, maxLength: 12 });
const name = fc.stringMatching(/^[a-z][a-z0-9_-]{0,20}$/);
const base64 = fc.stringMatching(/^[A-Za-z0-9+/]{4,12}$/);
const contentPart = fc.oneof(
  words.map((text) => ({ type: "text", text })),
  base64.map((data) => ({ type: "image_url", image_url: { url: `data:image/png;base64,${data}`, detail: "low" } })),
  fc.constant({ type: "image_url", image_url: { url: "https://x.example/a.png" } }),
  base64.map((data) => ({ type: "input_audio", input_audio: { data, format: "wav" } })),
  base64.map((data) => ({ type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${data}` } })),
  name.map((id) => ({ type: "file", file: { file_id: id } })),
);
// One text among parts is the same as a string, which is how it is written.
const content = fc.oneof(words, fc.array(contentPart, { minLength: 2, maxLength: 4 }));
const asked = fc.oneof(
  content.map((content) => ({ role: "user", content })),
  words.map((content) => ({ role: "system", content })),
  words.map((content) => ({ role: "developer", content })),
);
const spoken = fc.record({ content: words, reasoning: fc.option(words) }).map(({ content, reasoning }) => ({
  role: "assistant",
  content,
  ...(reasoning === null ? undefined : { reasoning_content: reasoning }),
}));
const refused = words.map((refusal) => ({ role: "assistant", content: null, refusal }));
/** An answer that calls tools, and their results. */
const round = fc
  .record({
    text: fc.option(words),
    calls: fc.uniqueArray(fc.record({ id: name, name, args: fc.dictionary(words, fc.jsonValue(), { maxKeys: 2 }), result: words }), {
      selector: ({ id }) => id,
      minLength: 1,
      maxLength: 3,
    }),
  })
  .map(({ text, calls }) => [
    {
      role: "assistant",
      content: text,
      tool_calls: calls.map(({ id, name, args }) => ({ id, type: "function", function: { name, arguments: JSON.stringify(args) } })),
    },
    ...calls.map(({ id, result }) => ({ role: "tool", tool_call_id: id, content: result })),
  ]);
/** What stands or falls together. */
const exchange: fc.Arbitrary<readonly object[]> = fc.oneof(
  asked.map((message) => [message]),
  spoken.map((message) => [message]),
  refused.map((message) => [message]),
  round,
);
const exchanges = fc.array(exchange, { minLength: 1, maxLength: 6 });

const settings = fc.record(
  {
    temperature: fc.double({ min: 0, max: 2, noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0)),
    top_p: fc.constantFrom(0.1, 1),
    presence_penalty: fc.constantFrom(-2, 0, 1.5),
    frequency_penalty: fc.constantFrom(-2, 0, 1.5),
    seed: fc.integer(),
    stop: fc.array(words, { minLength: 1, maxLength: 4 }),
    max_completion_tokens: fc.integer({ min: 1, max: 100_000 }),
    reasoning_effort: fc.constantFrom("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    user: name,
    prompt_cache_key: name,
    service_tier: fc.constantFrom("auto", "flex"),
    verbosity: fc.constantFrom("low", "medium", "high"),
    stream: fc.constant(true),
    response_format: fc.constantFrom<object>(
      { type: "text" },
      { type: "json_object" },
      { type: "json_schema", json_schema: { name: "n", description: "d", schema: { type: "object" }, strict: true } },
    ),
  },
  { requiredKeys: [] },
);

const tools = fc.option(
  fc.uniqueArray(name, { minLength: 1, maxLength: 3 }).chain((names) =>
    fc.record(
      {
        tools: fc.constant(
          names.map((each) => ({
            type: "function",
            function: {
              name: each,
              description: "d",
              parameters: { type: "object", properties: { a: { type: "string" } } },
              strict: false,
            },
          })),
        ),
        tool_choice: fc.constantFrom<unknown>("auto", "none", "required", { type: "function", function: { name: names[0] } }),
        parallel_tool_calls: fc.boolean(),
      },
      { requiredKeys: ["tools"] },
    ),
  ),
);

test("a request that is read as a conversation and written again is the same request", () => {
  fc.assert(
    fc.property(exchanges, settings, tools, (rounds, set, declared) => {
      const body = { model: "m", messages: rounds.flat(), ...declared, ...set };
      expect(roundTrip(body)).toEqual(body);
    }),
    { numRuns: numRuns(300) },
  );
});

test("a conversation that goes on begins with the same turns, and is written with the same bytes", () => {
  fc.assert(
    fc.property(exchanges, exchange, tools, (rounds, next, declared) => {
      const before = { model: "m", messages: rounds.flat(), ...declared };
      const after = { ...before, messages: [...rounds.flat(), ...next] };
      const { turns } = conversationOf(before);
      expect(conversationOf(after).turns.slice(0, turns.length)).toEqual([...turns]);
      const messages = JSON.stringify(roundTrip(before)["messages"]).slice(0, -1);
      expect(JSON.stringify(roundTrip(after)["messages"]).startsWith(messages)).toBe(true);
    }),
    { numRuns: numRuns(200) },
  );
});

test("whatever a client writes is a conversation or a failure, and nothing is thrown", () => {
  const key = fc.constantFrom(
    ...[
      "role",
      "content",
      "type",
      "text",
      "image_url",
      "url",
      "input_audio",
      "file",
      "file_data",
      "tool_calls",
      "tool_call_id",
      "function",
    ],
    ...["custom", "name", "arguments", "refusal", "reasoning_content", "reasoning_details", "signature", "data", "extra_content", "audio"],
    ...["cache_control", "function_call", "__proto__", "constructor"],
  );
  const word = fc.constantFrom(
    ...[
      "system",
      "user",
      "assistant",
      "tool",
      "function",
      "text",
      "image_url",
      "file",
      "refusal",
      "thinking",
      "reasoning.text",
      "custom",
      "",
    ],
    ...["data:", "data:;base64,", "data:,x", "sluice-v1.", "\ud800"],
  );
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      word,
      fc.constantFrom(null, true, false, 0, -1, 1e300),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 4 }),
    ),
  }));
  const message = fc.dictionary(key, value, { maxKeys: 5 });
  const field = fc.constantFrom(
    ...["tools", "functions", "tool_choice", "function_call", "response_format", "stop", "reasoning", "thinking", "temperature", "user"],
    ...["modalities", "parallel_tool_calls", "seed", "verbosity", "service_tier", "prompt_cache_key", "logprobs"],
  );
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 4 }), fc.dictionary(field, value, { maxKeys: 3 }), (messages, fields) => {
      const ask = askOf({ ...fields, model: "m", messages });
      const conversation = ask.toConversation(ask);
      expect(isFailure(conversation) ? conversation.kind : "conversation").toMatch(/^(conversation|invalid_request|unsupported)$/);
    }),
    { numRuns: numRuns(1000) },
  );
});

/** An answer with thoughts between its texts and its calls, which come after them. */
const answered: fc.Arbitrary<readonly Part[]> = fc
  .tuple(fc.array(fc.option(words), { maxLength: 5 }), fc.array(fc.boolean(), { maxLength: 4 }))
  .map(([texts, calls]) => {
    const parts: Part[] = [];
    const think = (): void => void parts.push({ kind: "reasoning", text: `t${parts.length}`, signature: { dialect: "other", data: "s" } });
    for (const text of texts) {
      if (text === null) think();
      // Two texts in a row are one.
      else if (parts.at(-1)?.kind !== "text") parts.push({ kind: "text", text });
    }
    for (const isCall of calls) {
      if (isCall) parts.push({ kind: "tool_call", id: `c${parts.length}`, name: "f", arguments: "{}" });
      else think();
    }
    return parts;
  });

test("what was sealed of an answer comes back at its place, whole and streamed", () => {
  fc.assert(
    fc.property(answered, (parts) => {
      const sealed: Part[] = [];
      const context = contextOf({}, { seal: (part) => `sluice-v1.${sealed.push(part) - 1}` });
      const answer = {
        id: null,
        model: null,
        createdSeconds: null,
        parts,
        finish: { reason: "stop", stopSequence: null },
        usage: null,
      } as const;
      const whole = JSON.parse(new TextDecoder().decode(surface.whole(answer, context))) as { choices: { message: object }[] };
      const writer = surface.writer(context);
      const deltas = chunksOf(joinedBytes([writer.write(parts.flatMap(streamed)), writer.end()])).map(
        (chunk) => (chunk["choices"] as { delta: Record<string, unknown> }[])[0]!.delta,
      );
      const { reasoning_details } = deltas.find((delta) => "reasoning_details" in delta) ?? {};
      for (const message of [whole.choices[0]!.message, { ...whole.choices[0]!.message, reasoning_details }]) {
        const messages = [{ role: "user", content: "x" }, message];
        const returned = conversationOf({ model: "m", messages }).turns[1]?.parts ?? [];
        const opened = returned.flatMap((part): readonly Part[] => {
          if (part.kind !== "reasoning") return part.kind === "text" && part.text === "" ? [] : [part];
          return part.signature === null ? [] : [sealed[Number(part.signature.data.slice("sluice-v1.".length))]!];
        });
        expect(opened).toEqual([...parts]);
      }
    }),
    { numRuns: numRuns(300) },
  );
});

function streamed(part: Part, index: number): readonly StreamPart[] {
  switch (part.kind) {
    case "text":
      return [{ kind: "text", text: part.text }];
    case "reasoning":
      return [
        { kind: "reasoning", text: part.text },
        { kind: "reasoning_signature", signature: part.signature!, redacted: false },
      ];
    case "tool_call":
      return [{ kind: "tool_call", index, id: part.id, name: part.name }];
    default:
      return [];
  }
}
