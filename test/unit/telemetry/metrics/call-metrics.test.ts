import { describe, expect, test } from "bun:test";
import { shownAs } from "../../../../src/http/errors.ts";
import { lostRace, type AttemptRecord, type CallRecord } from "../../../../src/gateway/settlement/record.ts";
import { failure } from "../../../../src/operations/failure.ts";
import { nothingCounted } from "../../../../src/operations/usage.ts";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.ts";
import { exposition } from "../../../../src/telemetry/metrics/exposition.ts";
import { MetricRegistry } from "../../../../src/telemetry/metrics/registry.ts";
import { attempt, callRecord, failedAttempt, receiptFor } from "../../../support/call-records.ts";
import { parseExposition, valueOf, type ExposedFamily } from "../../../support/exposition.ts";

/** What a scrape shows after these calls. A request that was refused has no receipt. */
function scraped(
  records: readonly CallRecord[],
  { keyLabels = false, admitted = true, priced = true, isListed = (_model: string): boolean => true } = {},
): readonly ExposedFamily[] {
  const metrics = new CallMetrics(new MetricRegistry(isListed), keyLabels, (refused) => shownAs(refused).code);
  for (const record of records) metrics.observe(record, admitted ? receiptFor(record, priced ? undefined : null) : null);
  return parseExposition(exposition(metrics.registry.collect()));
}

describe("a call that was answered", () => {
  const families = scraped([callRecord([attempt()])]);

  test.each([
    ["sluice_requests_total", { operation: "chat", model: "large", status: "200", outcome: "complete", blame: "none" }, 1],
    ["sluice_attempts_total", { channel: "one", outcome: "answered", error: "" }, 1],
    ["sluice_tokens_total", { model: "large", channel: "one", kind: "input" }, 100],
    ["sluice_tokens_total", { model: "large", channel: "one", kind: "cached_input" }, 40],
    ["sluice_tokens_total", { model: "large", channel: "one", kind: "output" }, 50],
    ["sluice_tokens_total", { model: "large", channel: "one", kind: "reasoning" }, 20],
    ["sluice_cost_usd_total", { model: "large", channel: "one" }, 0.0002],
    ["sluice_request_bytes_total", { operation: "chat" }, 100],
    ["sluice_response_bytes_total", { operation: "chat" }, 500],
    ["sluice_request_duration_seconds_sum", { operation: "chat", model: "large" }, 1],
    ["sluice_time_to_first_content_seconds_sum", { channel: "one" }, 0.2],
    // 800 ms between the first content and the end, for seventeen chunks.
    ["sluice_time_between_chunks_seconds_sum", { channel: "one" }, 0.05],
    ["sluice_longest_gap_seconds_sum", { operation: "chat", model: "large", channel: "one" }, 0.3],
    // Ten milliseconds before the attempt, and ten after it.
    ["sluice_gateway_overhead_seconds_sum", { operation: "chat" }, 0.02],
  ])("counts %s %j", (name, labels, value) => {
    expect(valueOf(families, name, labels)).toBeCloseTo(value, 10);
  });

  test("counts nothing that did not happen", () => {
    for (const name of ["failovers", "retries", "hedges", "rescues", "refusals", "unpriced_attempts", "key_requests"])
      expect(valueOf(families, `sluice_${name}_total`)).toBe(0);
  });

  test("has a longest gap for each attempt whose stream had two chunks", () => {
    const silent = attempt({ channel: "two", longestGapMs: null });
    const families = scraped([callRecord([attempt(), silent])]);
    expect(valueOf(families, "sluice_longest_gap_seconds_count", { channel: "one" })).toBe(1);
    expect(valueOf(families, "sluice_longest_gap_seconds_count", { channel: "two" })).toBe(0);
  });

  test("has no time to first content if it was not streamed", () => {
    expect(valueOf(scraped([callRecord([attempt()], { stream: false, chunks: 0 })]), "sluice_time_to_first_content_seconds_count")).toBe(0);
  });
});

describe("what happened on the way", () => {
  const broken = attempt({ channel: "one", outcome: "failed", failure: failure("interrupted", "cut"), outputTokens: 12 });
  const left = failure("client_gone", "left");
  const slow = attempt({ outcome: "abandoned", failure: lostRace, usage: null, outputTokens: 0 });
  const lostHedge = { ...slow, channel: "three", hedge: true };
  const cases: readonly [promise: string, attempts: readonly AttemptRecord[], name: string, labels: Readonly<Record<string, string>>][] = [
    ["another channel is a failover", [failedAttempt("overloaded"), attempt({ channel: "two" })], "failovers", { from: "one", to: "two" }],
    ["the same channel again is a retry", [failedAttempt("overloaded"), attempt()], "retries", { channel: "one" }],
    [
      "going on with a broken answer is a rescue",
      [broken, attempt({ channel: "two" })],
      "rescues",
      { channel: "two", outcome: "continued" },
    ],
    [
      "a rescue follows a broken answer also where a hedge had begun in between",
      [broken, lostHedge, attempt({ channel: "two" })],
      "rescues",
      { channel: "two", outcome: "continued" },
    ],
    [
      "a rescue goes on with the answer of a hedge as well",
      [slow, { ...broken, channel: "three", hedge: true }, attempt({ channel: "two" })],
      "rescues",
      { channel: "two", outcome: "continued" },
    ],
    [
      "a failover leaves the attempt that failed, and not the hedge beside it",
      [failedAttempt("overloaded"), lostHedge, attempt({ channel: "two" })],
      "failovers",
      { from: "one", to: "two" },
    ],
    ["a rescue may fail", [broken, failedAttempt("overloaded", { channel: "two" })], "rescues", { channel: "two", outcome: "failed" }],
    [
      "a second attempt that was quicker is a hedge that won",
      [failedAttempt("deadline", { outcome: "abandoned", failure: lostRace }), attempt({ channel: "two", hedge: true })],
      "hedges",
      { channel: "two", outcome: "won" },
    ],
    [
      "one that was slower has lost",
      [attempt(), attempt({ channel: "two", hedge: true, outcome: "abandoned", failure: lostRace, outputTokens: 0, usage: null })],
      "hedges",
      { channel: "two", outcome: "lost" },
    ],
    [
      "one that the client did not wait for has not failed",
      [attempt({ outcome: "abandoned", failure: left }), attempt({ channel: "two", hedge: true, outcome: "abandoned", failure: left })],
      "hedges",
      { channel: "two", outcome: "abandoned" },
    ],
  ];
  const kinds = ["failovers", "retries", "hedges", "rescues"];

  test.each(cases)("%s", (_, attempts, name, labels) => {
    const families = scraped([callRecord(attempts)]);
    expect(valueOf(families, `sluice_${name}_total`, labels)).toBe(1);
    const others = kinds.filter((kind) => kind === name || kind !== "hedges");
    expect(others.reduce((sum, kind) => sum + valueOf(families, `sluice_${kind}_total`), 0)).toBe(1);
  });

  test("each attempt to go on with a broken answer is a rescue, also after one that failed", () => {
    const families = scraped([callRecord([broken, failedAttempt("overloaded", { channel: "two" }), attempt({ channel: "three" })])]);
    expect(valueOf(families, "sluice_rescues_total", { channel: "two", outcome: "failed" })).toBe(1);
    expect(valueOf(families, "sluice_rescues_total", { channel: "three", outcome: "continued" })).toBe(1);
    expect(valueOf(families, "sluice_failovers_total")).toBe(0);
  });

  test("the first content is that of the channel that began the answer, also where another one went on with it", () => {
    const families = scraped([callRecord([broken, attempt({ channel: "two" })])]);
    const observed = (channel: string) => valueOf(families, "sluice_time_to_first_content_seconds_count", { channel });
    expect([observed("one"), observed("two")]).toEqual([1, 0]);
  });

  test("an attempt that lost against another one has no error", () => {
    const lost = attempt({ channel: "two", hedge: true, outcome: "abandoned", failure: lostRace, outputTokens: 0, usage: null });
    const families = scraped([callRecord([attempt(), lost])]);
    expect(valueOf(families, "sluice_attempts_total", { channel: "two", outcome: "abandoned", error: "" })).toBe(1);
    expect(valueOf(families, "sluice_attempts_total", { error: "deadline" })).toBe(0);
  });

  test("a failed attempt is counted with its kind of failure, and the money of all attempts is", () => {
    const families = scraped([callRecord([broken, attempt({ channel: "two" })])]);
    expect(valueOf(families, "sluice_attempts_total", { channel: "one", outcome: "failed", error: "interrupted" })).toBe(1);
    expect(valueOf(families, "sluice_cost_usd_total")).toBeCloseTo(0.0004, 10);
  });

  test("the overhead leaves out the time of attempts, also of those that ran beside each other", () => {
    const attempts = [attempt({ startedMs: 1_010, tookMs: 500 }), attempt({ startedMs: 1_100, tookMs: 600, hedge: true })];
    expect(valueOf(scraped([callRecord(attempts, { endedMs: 1_720 })]), "sluice_gateway_overhead_seconds_sum")).toBeCloseTo(0.03, 10);
  });

  test("the overhead leaves out what the call waited for: its body, a turn, and another attempt in vain", () => {
    const attempts = [
      failedAttempt("overloaded", { startedMs: 1_300, waitedMs: 80, tookMs: 100 }),
      attempt({ startedMs: 1_710, waitedMs: 300, tookMs: 200 }),
    ];
    // 200 ms for the body, and 50 ms in which nothing came of a wait.
    const families = scraped([callRecord(attempts, { endedMs: 2_000, waitedMs: 250 })]);
    expect(valueOf(families, "sluice_gateway_overhead_seconds_sum")).toBeCloseTo(0.07, 10);
  });

  test("the overhead of a call in parts is the time in which no part was attempted or waited, whatever their order", () => {
    const first = [
      failedAttempt("overloaded", { startedMs: 1_010, tookMs: 100 }),
      attempt({ startedMs: 1_610, waitedMs: 480, tookMs: 100 }),
    ];
    const second = attempt({ startedMs: 1_020, tookMs: 400 });
    const families = scraped([callRecord([...first, second], { endedMs: 1_720 })]);
    // Ten at either end: where the first part waits and works between its attempts, the second one is being attempted.
    expect(valueOf(families, "sluice_gateway_overhead_seconds_sum")).toBeCloseTo(0.02, 10);
  });
});

describe("a request that was refused", () => {
  const refused = callRecord([], {
    model: "whatever-the-client-wrote",
    status: 429,
    state: "failed",
    failure: failure("limited", "no room", { code: "rate_limit_exceeded" }),
    firstContentMs: null,
  });

  test("is counted with its reason, and without the name that the client gave", () => {
    const families = scraped([refused], { admitted: false });
    expect(valueOf(families, "sluice_refusals_total", { operation: "chat", reason: "rate_limit_exceeded" })).toBe(1);
    expect(valueOf(families, "sluice_requests_total", { model: "", status: "429", outcome: "refused", blame: "client" })).toBe(1);
    expect(JSON.stringify(families)).not.toContain("whatever");
  });

  test.each([
    ["saturated", {}, "overloaded"],
    ["no_channel", {}, "no_channel_available"],
    ["too_large", {}, "request_too_large"],
    ["shutting_down", {}, "server_shutting_down"],
    ["limited", { code: "concurrency_limit" }, "concurrency_limit"],
    ["invalid_request", { status: 405 }, "invalid_request"],
  ] as const)("for the reason %s %j is counted with the code that the client is told, %s", (kind, facts, reason) => {
    const families = scraped([{ ...refused, failure: failure(kind, "why", facts) }], { admitted: false });
    expect(valueOf(families, "sluice_refusals_total", { operation: "chat", reason })).toBe(1);
  });

  test("is no refusal if the client left", () => {
    const left = { ...refused, state: "abandoned", failure: failure("client_gone", "left") } as const;
    expect(valueOf(scraped([left], { admitted: false }), "sluice_refusals_total")).toBe(0);
  });
});

test("keys are labels only where that is wanted", () => {
  const record = callRecord([attempt()]);
  expect(JSON.stringify(scraped([record]))).not.toContain("key-1");
  const families = scraped([record], { keyLabels: true });
  expect(valueOf(families, "sluice_key_requests_total", { key: "key-1" })).toBe(1);
  expect(valueOf(families, "sluice_key_cost_usd_total", { key: "key-1" })).toBeCloseTo(0.0002, 10);
});

test("an attempt without a known price is counted as such, and costs nothing here", () => {
  const families = scraped([callRecord([attempt()])], { priced: false });
  expect(valueOf(families, "sluice_unpriced_attempts_total", { model: "large", channel: "one" })).toBe(1);
  expect(valueOf(families, "sluice_cost_usd_total")).toBe(0);
});

test("seconds and characters have counters of their own", () => {
  const usage = { ...nothingCounted, audioSeconds: 12.5 };
  const families = scraped([callRecord([attempt({ usage, outputTokens: 0 })], { operation: "transcription", stream: false })]);
  expect(valueOf(families, "sluice_audio_seconds_total", { model: "large" })).toBe(12.5);
  expect(valueOf(families, "sluice_tokens_total")).toBe(0);
});

test("ten thousand invented names make a hundred series, every call is counted, and a listed model has its own", () => {
  const names = [...Array.from({ length: 10_000 }, (_, at) => `invented-${at}`), "large"];
  const records = names.map((model) => callRecord([attempt()], { model }));
  const families = scraped(records, { isListed: (model) => model === "large" });
  const requests = families.find(({ name }) => name === "sluice_requests_total")!;
  expect(requests.samples).toHaveLength(102);
  expect(valueOf(families, "sluice_requests_total")).toBe(10_001);
  expect(valueOf(families, "sluice_requests_total", { model: "large" })).toBe(1);
  expect(valueOf(families, "sluice_tokens_total", { kind: "output" })).toBe(500_050);
});

test("a hundred invented names, each with every status on many channels, leave listed models their series", () => {
  const names = Array.from({ length: 100 }, (_, at) => `invented-${at}`);
  const channels = Array.from({ length: 25 }, (_, at) => `channel-${at}`);
  const statuses = [200, 429, 500, 502, 504];
  const invented = names.flatMap((model) =>
    channels.map((channel, at) => callRecord([attempt({ channel })], { model, status: statuses[at % statuses.length]! })),
  );
  const listed = channels.map((channel) => callRecord([attempt({ channel })], { model: "large" }));
  const families = scraped([...invented, ...listed], { isListed: (model) => model === "large" });
  expect(valueOf(families, "sluice_requests_total")).toBe(2_525);
  expect(valueOf(families, "sluice_requests_total", { model: "large" })).toBe(25);
  for (const channel of channels) {
    expect(valueOf(families, "sluice_tokens_total", { model: "large", channel, kind: "output" })).toBe(50);
    expect(valueOf(families, "sluice_time_to_first_content_seconds_count", { model: "large", channel })).toBe(1);
  }
});

test("of listed models, three hundred are told apart", () => {
  const records = Array.from({ length: 400 }, (_, at) => callRecord([attempt()], { model: `model-${at}` }));
  const families = scraped(records);
  expect(families.find(({ name }) => name === "sluice_requests_total")!.samples).toHaveLength(301);
  expect(valueOf(families, "sluice_requests_total", { model: "other" })).toBe(100);
});
