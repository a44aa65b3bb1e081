import { describe, expect, test } from "bun:test";
import type { LabClientView } from "../../../src/lab/lab-client.ts";
import { brokenPromises } from "../../../src/lab/lab-promise.ts";
import type { LabPromise } from "../../../src/lab/scenarios.ts";
import type { LiveAttempt, LiveCall } from "../../../src/telemetry/live/live-call.ts";

const failover: LabPromise = { client: [{ sees: "answer" }], firstFailure: ["overloaded"], answeredBy: "lab-b", coolsDown: null };
const limited: LabPromise = {
  client: [
    { sees: "error", status: 429, code: "rate_limit_exceeded" },
    { sees: "interruption", code: "cut" },
  ],
  firstFailure: ["rate_limited"],
  answeredBy: null,
  coolsDown: { channel: "lab-a", afterCalls: 1 },
};

function client(changes: Partial<LabClientView> = {}): LabClientView {
  return { sees: "answer", status: 200, code: null, words: 60, retryAfterS: null, ...changes };
}

const refused = client({ sees: "error", status: 429, code: "rate_limit_exceeded", words: 0, retryAfterS: 20 });

function attempt(channel: string, outcome: LiveAttempt["outcome"], error: string | null = null): LiveAttempt {
  return { channel, model: "lab", afterMs: 0, tookMs: 1, outcome, error, hedge: false };
}

function call(...attempts: readonly LiveAttempt[]): LiveCall {
  return {
    id: "1",
    requestId: "1",
    keyId: "lab",
    operation: "chat",
    model: "lab",
    stream: true,
    state: "complete",
    status: 200,
    error: null,
    startedMs: 0,
    tookMs: 1,
    firstContentMs: null,
    outputTokens: 0,
    nanos: null,
    attempts,
  };
}

const kept = call(attempt("lab-a", "failed", "overloaded"), attempt("lab-b", "answered"));
const limitedCall = call(attempt("lab-a", "failed", "rate_limited"));
const none: ReadonlySet<string> = new Set();
const cooled: ReadonlySet<string> = new Set(["lab-a"]);

describe("what of a promise was not kept", () => {
  test.each([
    ["nothing, after a failover that nobody noticed", failover, [{ client: client(), call: kept }], none, []],
    ["nothing, if a client is told to wait", limited, [{ client: refused, call: limitedCall }], cooled, []],
    [
      "nothing, if a later call sees what only later ones may see",
      limited,
      [
        { client: refused, call: limitedCall },
        { client: client({ sees: "interruption", code: "cut", words: 3 }), call: limitedCall },
      ],
      cooled,
      [],
    ],
    [
      "a first call that sees that",
      limited,
      [{ client: client({ sees: "interruption", code: "cut", words: 3 }), call: limitedCall }],
      cooled,
      ["Call 1: the client saw 3 words and the error cut."],
    ],
    [
      "a text that was mixed up",
      failover,
      [{ client: client({ sees: "wrong", words: 70 }), call: kept }],
      none,
      ["Call 1: the client saw 70 words that are not the answer."],
    ],
    [
      "a 429 that does not say when to come back",
      limited,
      [{ client: { ...refused, retryAfterS: null }, call: limitedCall }],
      cooled,
      ["Call 1: the client saw the error rate_limit_exceeded with status 429."],
    ],
    [
      "an attempt that failed for another reason, and one who should not have answered",
      failover,
      [{ client: client(), call: call(attempt("lab-a", "failed", "timed_out"), attempt("lab-a", "answered")) }],
      none,
      ["The first attempt was failed (timed_out).", "The first call was answered by lab-a."],
    ],
    ["a channel that should have cooled down", limited, [{ client: refused, call: limitedCall }], none, ["lab-a did not cool down."]],
    [
      "nothing, if there were too few calls for a channel to cool down",
      { ...limited, coolsDown: { channel: "lab-a", afterCalls: 2 } } as const,
      [{ client: refused, call: limitedCall }],
      none,
      [],
    ],
    ["a call that the gateway did not see", failover, [{ client: client(), call: null }], none, ["The first call made no attempt."]],
    ["that there was no call", failover, [], none, ["There was no call."]],
  ])("%s", (_, promise, calls, cooledChannels, broken) => {
    expect(brokenPromises(promise, calls, cooledChannels)).toEqual(broken);
  });

  test("is said in a few sentences, however many calls there were", () => {
    const calls = Array.from({ length: 200 }, () => ({ client: client({ sees: "wrong" }), call: kept }));
    expect(brokenPromises(failover, calls, none)).toHaveLength(5);
  });
});
