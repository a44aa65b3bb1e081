import { describe, expect, test } from "bun:test";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import { OpenAiStream } from "../../../src/dialects/openai/stream.ts";
import { HeldRequests, SaidText } from "../../../src/gateway/attempt/rescue.ts";
import { readChatRequest, type ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { continued, type Continuation } from "../../../src/operations/chat/continuation.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import type { Candidates } from "../../../src/routing/plan.ts";
import { canContinue, type RescueInput } from "../../../src/routing/rescue.ts";
import { candidatesOf, type Candidate } from "../../../src/channels/channel.ts";
import { channel } from "../../support/plan-world.ts";

function askOf(body: object | string): ChatRequest {
  const ask = readChatRequest(new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body)));
  if (isFailure(ask)) throw new Error(ask.detail);
  return ask;
}

function continuedBody(body: object | string, text: string, how: Continuation, spent = 0): Record<string, unknown> | null {
  const ask = continued(askOf(body), text, how, spent, false);
  return ask === null ? null : (JSON.parse(new TextDecoder().decode(ask.body)) as Record<string, unknown>);
}

function serving(name: string, model: string): Candidate {
  return candidatesOf({ id: `${name}/${model}`, channel: channel(name), model })[0]!;
}

const question = { role: "user", content: "Tell me." };
const plain = { model: "m", messages: [question], stream: true };

describe("a request for the rest of an answer", () => {
  test("ends with the unfinished answer, without white space at its end, for a model that continues it", () => {
    expect(continuedBody(plain, "Once upon \n", "prefill")).toEqual({
      ...plain,
      messages: [question, { role: "assistant", content: "Once upon" }],
    });
  });

  test("ends with the user's wish to have its end repeated, for all others", () => {
    const { messages } = continuedBody(plain, "Once upon a time", "repeat") as { messages: { role: string; content: string }[] };
    expect(messages.slice(0, 2)).toEqual([question, { role: "assistant", content: "Once upon a time" }]);
    expect(messages[2]).toMatchObject({ role: "user", content: expect.stringContaining("\nOnce upon a time\n") });
    expect(messages.length).toBe(3);
  });

  test("has what is left of every bound on the answer, and one token at least", () => {
    const bounds = { max_tokens: 100, max_completion_tokens: 30, n_predict: -1 };
    expect(continuedBody({ ...bounds, ...plain }, "x", "prefill", 40)).toMatchObject({
      max_tokens: 60,
      max_completion_tokens: 1,
      n_predict: -1,
    });
    expect(continuedBody(plain, "x", "prefill", 40)).not.toHaveProperty("max_tokens");
    // Of two with one name, an upstream may read either.
    const twice = `{"max_tokens":100,"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":90}`;
    const ask = continued(askOf(twice), "x", "prefill", 40, false)!;
    expect(new TextDecoder().decode(ask.body)).toMatch(/^\{"max_tokens":60,.*"max_tokens":50\}$/);
    expect(ask.maxTokens).toBe(60);
  });

  test("is not made where the client began the answer itself", () => {
    const begun = { ...plain, messages: [question, { role: "assistant", content: "So" }] };
    for (const how of ["prefill", "repeat"] as const) expect(continuedBody(begun, "x", how)).toBeNull();
  });
});

describe("which candidate may continue an answer", () => {
  const [a, same, maker, other] = [serving("a", "gpt"), serving("b", "gpt"), serving("c", "openai/GPT"), serving("d", "claude")];
  const choices = [a, same, maker, other].map((one, tier) => ({ candidate: one, tier, probe: false }));
  const plan: Candidates = { ok: true, mode: "normal", candidates: choices, skipped: [] };
  const policy = { attemptsMax: 3, hedgeAfterMs: null, streamDeadlineMs: 1, wholeDeadlineMs: 1, waitMs: 0 } as const;
  const names = (rescue: "auto" | "continue" | "error", facts: Partial<RescueInput> = {}): readonly string[] => {
    const input = { policy: { ...policy, rescue }, plan, asked: [a], broken: a.deployment, ...facts };
    return input.plan.candidates.filter((choice) => canContinue(choice, input)).map((one) => one.candidate.deployment.channel.name);
  };

  test.each([
    ["auto", ["b", "c"]],
    ["continue", ["b", "c", "d"]],
    ["error", []],
  ] as const)("with %s: %p", (rescue, able) => {
    expect(names(rescue)).toEqual([...able]);
  });

  test("none twice, none on probation, and none after the last attempt", () => {
    expect(names("auto", { asked: [a, same] })).toEqual(["c"]);
    expect(names("auto", { plan: { ...plan, candidates: choices.map((choice) => ({ ...choice, probe: true })) } })).toEqual([]);
    expect(names("auto", { plan: { ...plan, mode: "last_resort" } })).toEqual([]);
    expect(names("continue", { asked: [a, same, maker] })).toEqual([]);
  });
});

test("the text of an answer is kept exactly, however it arrives", () => {
  const pieces = ["Il était", ...Array.from({ length: 300 }, (_, at) => ` word${at}`), " 漢字", "", " 👩‍🔧", " the", " end", "."];
  const frames = pieces.map(
    (content) => `data: ${JSON.stringify({ id: "x", choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`,
  );
  const bytes = new TextEncoder().encode(frames.join(""));
  for (const step of [17, 500, bytes.length]) {
    const reader = new EventReader(new OpenAiStream({ hidesUsage: false, choices: 1 }));
    const said = new SaidText();
    for (let at = 0; at < bytes.length; at += step) {
      const emissions = reader.push(bytes.slice(at, at + step));
      if (isFailure(emissions)) throw new Error(emissions.detail);
      for (const emission of emissions) if (emission.kind === "delta") said.add(emission.text);
    }
    expect(said.text).toBe(pieces.join(""));
  }
});

test("requests are kept within a bound, each and together", () => {
  const held = new HeldRequests();
  expect(held.hold(1024 * 1024 + 1)).toBe(false);
  for (let request = 0; request < 64; request += 1) expect(held.hold(1024 * 1024)).toBe(true);
  expect(held.hold(1)).toBe(false);
  held.release(1024 * 1024);
  expect(held.hold(1)).toBe(true);
});
