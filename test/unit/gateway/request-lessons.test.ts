import { describe, expect, test } from "bun:test";
import { explain } from "../../../src/dialects/errors/explain.ts";
import { conversationFor } from "../../../src/dialects/target-conversation.ts";
import {
  betasLesson,
  fieldLesson,
  Lessons,
  nothingLearned,
  together,
  type CallLesson,
  type Lesson,
} from "../../../src/gateway/upstream-state/lessons.ts";
import type { Conversation, ReasoningRequest } from "../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { messagesSurface } from "../../../src/surfaces/index.ts";
import { candidate, channel } from "../../support/plan-world.ts";

function lessonOf(body: object, status = 400, isEcho = false): CallLesson | null {
  return fieldLesson(explain({ status, header: () => null, body: JSON.stringify(body) }), null, isEcho);
}

const error = (message: string, more: object = {}): object => ({ error: { message, type: "invalid_request_error", ...more } });

describe("a model that refuses to be asked to reason", () => {
  test.each([
    ["an unknown argument", error("Unrecognized request argument supplied: reasoning_effort")],
    ["an unsupported one", error("Unsupported parameter.", { param: "reasoning_effort", code: "unsupported_parameter" })],
    ["one of the Responses API", error("Unsupported parameter.", { param: "reasoning.effort", code: "unsupported_parameter" })],
    ["a field in quotes", error("`reasoning_effort` is not supported with this model")],
    ["a model without thoughts", error('"llama3.2:latest" does not support thinking')],
    ["another spelling", { code: "invalid-argument", error: "Argument not supported on this model: reasoningEffort" }],
    ["an extra field", { detail: [{ type: "extra_forbidden", loc: ["body", "reasoning_effort"], msg: "Extra inputs are not permitted" }] }],
    [
      "a value of a list",
      error("[{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low', 'medium' or 'high'\"}]"),
    ],
  ])("is not asked any more: %s", (_, body) => {
    expect(lessonOf(body)).toEqual({ ...nothingLearned, refusedFields: ["reasoning_effort"], shared: true });
  });

  test.each([
    ["temperature", error("Unsupported parameter: 'temperature' is not supported with this model.", { param: "temperature" })],
    ["temperature", error("Only the default (1) value is supported.", { param: "temperature", code: "unsupported_value" })],
    ["temperature", { detail: "Unsupported parameter: temperature" }],
    ["prompt_cache_key", error("property 'prompt_cache_key' is unsupported")],
    ["verbosity", error("Unsupported parameter.", { param: "text.verbosity", code: "unsupported_parameter" })],
    ["user", error("Unsupported parameter.", { param: "safety_identifier", code: "unsupported_parameter" })],
  ] as const)("or something else that an answer can do without is not, either: %s", (field, body) => {
    expect(lessonOf(body)).toEqual({ ...nothingLearned, refusedFields: [field], shared: true });
  });

  test("because of one of the efforts may take another: only this call learns from it, and from what may be an echo", () => {
    const value = error("Unsupported value: 'none' is not supported.", { param: "reasoning_effort", code: "unsupported_value" });
    expect(lessonOf(value)?.shared).toBe(false);
    expect(lessonOf(error("`reasoning_effort` is not supported"), 400, true)?.shared).toBe(false);
  });

  test("is asked once more and not again", () => {
    const refused = explain({ status: 400, header: () => null, body: JSON.stringify(error("`reasoning_effort` is not supported")) });
    const lesson = fieldLesson(refused, null, false);
    expect(fieldLesson(refused, lesson, false)).toBeNull();
  });

  test("teaches nothing where it complains of something else", () => {
    expect(lessonOf(error("Unsupported parameter.", { param: "tools", code: "unsupported_parameter" }))).toBeNull();
    expect(lessonOf(error("`reasoning_effort` is not supported"), 503)).toBeNull();
  });

  test("is remembered for an hour, and shown", () => {
    let nowMs = 0;
    const lessons = new Lessons(
      8,
      () => nowMs,
      () => false,
    );
    const one = candidate("main");
    lessons.confirmed(one, { ...nothingLearned, refusedFields: ["reasoning_effort"], shared: true });
    expect(lessons.of(one)).toEqual({ ...nothingLearned, refusedFields: ["reasoning_effort"] });
    expect(lessons.ofChannel("main")).toMatchObject([{ maxTokens: null, unsupported: "reasoning_effort", forMs: 3_600_000 }]);
    expect(together<Lesson>({ ...nothingLearned, refusedFields: ["user"] }, lessons.of(one)).refusedFields).toEqual([
      "user",
      "reasoning_effort",
    ]);
    lessons.confirmed(one, { ...nothingLearned, refusedFields: ["temperature"], shared: true });
    expect(lessons.of(one).refusedFields).toEqual(["temperature", "reasoning_effort"]);
    nowMs = 3_600_001;
    expect([lessons.of(one), lessons.ofChannel("main")]).toEqual([nothingLearned, []]);
  });
});

test.each<[object, ReasoningRequest["effort"] | undefined, readonly string[]]>([
  [{ type: "adaptive" }, "high", ["reasoning_effort"]],
  [{ type: "disabled" }, "none", []],
])("a request is written without %o for such a model, which is said unless it makes no difference", (thinking, effort, dropped) => {
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "x" }], thinking });
  const ask = messagesSurface.parse(new TextEncoder().encode(body));
  if (isFailure(ask)) throw new Error(ask.detail);
  const written = (isRefused: boolean): Conversation => {
    const refusedFields = isRefused ? (["reasoning_effort", "seed"] as const) : null;
    const conversation = conversationFor(ask, { channel: channel("a"), model: "m", refusedFields });
    if (isFailure(conversation)) throw new Error(conversation.detail);
    return conversation;
  };
  expect(written(false).reasoning?.effort).toBe(effort);
  expect(written(true)).toMatchObject({ reasoning: null, uncarried: dropped });
});

describe("an upstream that does not know a beta feature", () => {
  test.each(["invalid beta flag", "Unexpected value(s) `a-2026-01-01` for the `anthropic-beta` header."])(
    "gets fewer of them: %s",
    (message) => {
      const refused = explain({ status: 400, header: () => null, body: JSON.stringify({ message }) });
      expect(betasLesson(refused, "known", false)).toEqual({ ...nothingLearned, betas: "known", shared: true });
      expect(betasLesson(refused, "none", true)).toEqual({ ...nothingLearned, betas: "none", shared: false });
      expect(betasLesson(refused, null, false)).toBeNull();
    },
  );

  test("is remembered for an hour, the fewest of what was learned", () => {
    let nowMs = 0;
    const lessons = new Lessons(
      8,
      () => nowMs,
      () => false,
    );
    const one = candidate("main");
    lessons.confirmed(one, { ...nothingLearned, betas: "known", shared: true });
    expect([lessons.of(one).betas, together<Lesson>({ ...nothingLearned, betas: "none" }, lessons.of(one)).betas]).toEqual([
      "known",
      "none",
    ]);
    lessons.confirmed(one, { ...nothingLearned, betas: "none", shared: true });
    expect(lessons.ofChannel("main")).toMatchObject([{ unsupported: "beta features" }]);
    nowMs = 3_600_001;
    expect(lessons.of(one)).toEqual(nothingLearned);
  });
});
