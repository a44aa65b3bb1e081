import { describe, expect, test } from "bun:test";
import { lostRace, type AttemptRecord, type CallRecord } from "../../../../src/gateway/settlement/record.ts";
import type { TraceContext } from "../../../../src/gateway/trace.ts";
import { failure } from "../../../../src/operations/failure.ts";
import { stateFamilies } from "../../../../src/telemetry/metrics/state-metrics.ts";
import { nothingCounted } from "../../../../src/operations/usage.ts";
import { OtlpExporter, type PostOutcome } from "../../../../src/telemetry/otlp/otlp-exporter.ts";
import { attempt, callRecord, failedAttempt, receiptFor } from "../../../support/call-records.ts";
import { readMetrics, readTraces } from "../../../support/otlp.ts";
import { gatewayState, otlpPorts, otlpSettings, taken } from "../../../support/telemetry.ts";

const trace: TraceContext = {
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  parentId: "1111111111111111",
  sampled: true,
  state: null,
  passedOn: true,
  path: "/v1/chat/completions",
};

function traced(attempts: CallRecord["attempts"] = [attempt({ spanId: "2222222222222222" })], facts: Partial<CallRecord> = {}): CallRecord {
  return callRecord(attempts, { trace, ...facts });
}

function offer(exporter: OtlpExporter, ...records: readonly CallRecord[]): void {
  for (const record of records) exporter.observe(record, receiptFor(record));
}

describe("a trace", () => {
  test("has a span for the call and one for each attempt, with the names of the conventions", async () => {
    const ports = otlpPorts();
    const exporter = new OtlpExporter(otlpSettings(), ports);
    const attempts = [
      failedAttempt("overloaded", { spanId: "2222222222222222", tookMs: 100, failure: failure("overloaded", "busy", { status: 503 }) }),
      attempt({ spanId: "3333333333333333", channel: "two", provider: "azure-openai", startedMs: 1_110, tookMs: 880 }),
    ];
    offer(exporter, traced(attempts));
    await ports.fire();
    expect(ports.requests.map(({ url, headers }) => [url, headers])).toEqual([
      ["http://collector.test:4318/v1/traces", { "content-type": "application/json", "x-token": "secret" }],
    ]);
    const spans = readTraces(ports.requests[0]!.body);
    const callSpanId = spans[0]?.spanId ?? "";
    expect(callSpanId).toMatch(/^[0-9a-f]{16}$/);
    expect(spans.map(({ name, kind, spanId, parentSpanId, status }) => [name, kind, spanId, parentSpanId, status])).toEqual([
      ["chat large", 2, callSpanId, trace.parentId ?? "", 0],
      ["chat large-1", 3, "2222222222222222", callSpanId, 2],
      ["chat large-1", 3, "3333333333333333", callSpanId, 0],
    ]);
    expect(spans.every(({ traceId }) => traceId === trace.traceId)).toBe(true);
    expect(spans[0]).toMatchObject({
      // The monotonic clock was 5 s when the wall clock was at …005.
      startNanos: 1_700_000_001_000_000_000n,
      endNanos: 1_700_000_002_000_000_000n,
      resource: { "service.name": "sluice", "service.version": "0.0.0" },
      attributes: {
        "http.request.method": "POST",
        "url.scheme": "https",
        "url.path": "/v1/chat/completions",
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "large",
        "sluice.request_id": "req_1",
        "sluice.receipt_id": "019a9b1c-0000-7abc-8def-0123456789ab",
        "sluice.key_id": "key-1",
        "sluice.channel": "two",
        "sluice.attempts": 2,
        "sluice.outcome": "complete",
      },
    });
    expect(spans[1]?.attributes).toMatchObject({ "error.type": "overloaded", "http.response.status_code": 503, "sluice.channel": "one" });
    expect(spans[2]?.attributes).toMatchObject({
      "gen_ai.provider.name": "azure.ai.openai",
      "gen_ai.request.model": "large-1",
      "gen_ai.request.stream": true,
      "server.address": "upstream.test",
      "server.port": 443,
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.response.time_to_first_chunk": 0.09,
      "gen_ai.usage.input_tokens": 100,
      "gen_ai.usage.output_tokens": 50,
      "gen_ai.usage.cache_read.input_tokens": 40,
      "gen_ai.usage.reasoning.output_tokens": 20,
      "sluice.cost_usd": 0.0002,
    });
  });

  test("has the older names where they are wanted", async () => {
    const ports = otlpPorts();
    const exporter = new OtlpExporter(otlpSettings({ conventions: "1.36" }), ports);
    offer(exporter, traced());
    await ports.fire();
    const names = Object.keys(readTraces(ports.requests[0]!.body)[1]!.attributes);
    expect(names).toContain("gen_ai.system");
    expect(names).not.toContain("gen_ai.provider.name");
    expect(names).not.toContain("gen_ai.usage.cache_read.input_tokens");
  });

  test("holds nothing that the client or an upstream wrote but names", async () => {
    const ports = otlpPorts();
    const exporter = new OtlpExporter(otlpSettings(), ports);
    const secret = "the words of an upstream";
    offer(
      exporter,
      traced([failedAttempt("overloaded", { spanId: "2222222222222222", failure: failure("overloaded", secret, { message: secret }) })]),
    );
    await ports.fire();
    expect(ports.requests[0]?.body).not.toContain(secret);
  });
});

describe("a span", () => {
  async function spansFor(record: CallRecord, receipt = receiptFor(record) as ReturnType<typeof receiptFor> | null) {
    const ports = otlpPorts();
    new OtlpExporter(otlpSettings({ metrics: false }), ports).observe(record, receipt);
    await ports.fire();
    return readTraces(ports.requests[0]!.body);
  }

  test("of a request that was refused is not named by what the client wrote", async () => {
    const refused = traced([], { model: "whatever", status: 404, failure: failure("invalid_request", "no such model") });
    const [span] = await spansFor(refused, null);
    expect([span?.name, span?.attributes["gen_ai.request.model"]]).toEqual(["chat", "whatever"]);
  });

  test("of an attempt has an error if the gateway's deadline ended it, and none if another was quicker or the client left", async () => {
    const ended = (reason: AttemptRecord["failure"], spanId: string) =>
      attempt({ outcome: "abandoned", failure: reason, spanId, usage: null, outputTokens: 0 });
    const attempts = [
      ended(failure("deadline", "too late"), "2222222222222222"),
      ended(lostRace, "3333333333333333"),
      { ...ended(failure("client_gone", "left"), "4444444444444444"), outputTokens: 7 },
    ];
    const [, ...spans] = await spansFor(traced(attempts));
    expect(spans.map(({ status, attributes }) => [status, attributes["error.type"], attributes["gen_ai.response.finish_reasons"]])).toEqual(
      [
        [2, "deadline", undefined],
        [0, undefined, undefined],
        [0, undefined, undefined],
      ],
    );
  });

  test("of an attempt whose answer broke off ends with an error, and one without output has no finish", async () => {
    const cut = failure("interrupted", "cut");
    const attempts = [
      failedAttempt("overloaded", { spanId: "2222222222222222" }),
      attempt({ outcome: "failed", failure: cut, spanId: "3333333333333333" }),
    ];
    const [, ...spans] = await spansFor(traced(attempts, { state: "interrupted", failure: cut, finish: null }));
    expect(spans.map(({ attributes }) => attributes["gen_ai.response.finish_reasons"])).toEqual([undefined, ["error"]]);
  });

  test("of an attempt names the model that served where the upstream says so, and no server for a model of this machine", async () => {
    const usage = { ...attempt().usage!, servedModel: "large-1-2026-01-01" };
    const attempts = [attempt({ spanId: "2222222222222222", usage }), attempt({ spanId: "3333333333333333", host: "embedded" })];
    const [, served, local] = await spansFor(traced(attempts));
    expect(served?.attributes["gen_ai.response.model"]).toBe("large-1-2026-01-01");
    expect(Object.keys(local!.attributes).filter((name) => /^server\.|response\.model/.test(name))).toEqual([]);
  });

  test.each([
    ["[::1]:11434", "::1", 11434],
    ["api.example:443", "api.example", 443],
  ])("of an attempt names the server %s by its address and its port", async (host, address, port) => {
    const [, span] = await spansFor(traced([attempt({ spanId: "2222222222222222", host })]));
    expect([span?.attributes["server.address"], Number(span?.attributes["server.port"])]).toEqual([address, port]);
  });

  test.each([
    ["latest", "gen_ai.usage.cache_write.input_tokens"],
    ["1.41", "gen_ai.usage.cache_creation.input_tokens"],
  ] as const)("of an attempt tells what was written to a cache, by the name of %s", async (conventions, name) => {
    const ports = otlpPorts();
    const exporter = new OtlpExporter(otlpSettings({ conventions }), ports);
    exporter.start();
    const usage = { ...attempt().usage!, cacheWriteTokens: 30 };
    offer(exporter, traced([attempt({ spanId: "2222222222222222", usage })]));
    await ports.fire();
    const body = (signal: string) => ports.requests.find(({ url }) => url.endsWith(signal))!.body;
    expect(readTraces(body("traces"))[1]?.attributes[name]).toBe(30);
    const counter = readMetrics(body("metrics")).find((one) => one.name === "gen_ai.client.inference.usage.cache_write.input_tokens");
    expect(counter?.points.map(({ value }) => value)).toEqual(conventions === "latest" ? [30] : undefined);
  });

  test("of an attempt that went on with an answer does not say when that began", async () => {
    const attempts = [attempt({ spanId: "2222222222222222" }), attempt({ spanId: "3333333333333333", startedMs: 1_500, tookMs: 400 })];
    const [, first, second] = await spansFor(traced(attempts));
    expect(first?.attributes["gen_ai.response.time_to_first_chunk"]).toBe(0.19);
    expect(Object.keys(second!.attributes)).not.toContain("gen_ai.response.time_to_first_chunk");
  });
});

describe("which calls are exported", () => {
  const unsampled = { trace: { ...trace, sampled: false } };
  const late = failure("deadline", "too late");
  const cases: readonly [promise: string, record: CallRecord, isExported: boolean][] = [
    ["not one that chance left out", traced(undefined, unsampled), false],
    ["one that chance or the client chose", traced(), true],
    ["one that failed", traced([], { ...unsampled, state: "failed", status: 504, failure: late }), true],
    ["one with a failed attempt", traced([failedAttempt("overloaded"), attempt()], unsampled), true],
    ["one that broke off", traced(undefined, { ...unsampled, state: "interrupted", failure: failure("interrupted", "cut") }), true],
    ["a slow one", traced(undefined, { ...unsampled, endedMs: 99_000, firstContentMs: 10_000 }), true],
    ["not a long one that began soon", traced(undefined, { ...unsampled, endedMs: 99_000 }), false],
    ["not one that was the client's fault", traced([], { ...unsampled, status: 400, failure: failure("invalid_request", "no") }), false],
    ["not one that has no trace", callRecord([attempt()]), false],
    [
      "not one without a valid key, whatever its headers say",
      traced([], { keyId: null, status: 401, failure: failure("invalid_request", "no key") }),
      false,
    ],
    ["one without a key that fails by the gateway", traced([], { keyId: null, status: 503, failure: failure("saturated", "full") }), true],
  ];

  test.each(cases)("%s", async (_, record, isExported) => {
    const ports = otlpPorts();
    offer(new OtlpExporter(otlpSettings({ metrics: false }), ports), record);
    await ports.fire();
    expect(ports.requests.length).toBe(isExported ? 1 : 0);
  });
});

describe("metrics", () => {
  async function exported(conventions: "latest" | "1.41" | "1.36") {
    const ports = otlpPorts(undefined, { families: () => stateFamilies(gatewayState) });
    const exporter = new OtlpExporter(otlpSettings({ conventions, traces: false }), ports);
    exporter.start();
    offer(
      exporter,
      traced([failedAttempt("overloaded"), attempt({ provider: null })]),
      traced([attempt({ provider: "mistral" })], { operation: "embedding", stream: false }),
      // It reported nothing, so that there is nothing to observe.
      traced([failedAttempt("overloaded", { provider: "mistral" })], { operation: "embedding", stream: false }),
    );
    await ports.fire();
    expect(ports.requests.map(({ url }) => url)).toEqual(["http://collector.test:4318/v1/metrics"]);
    return new Map(readMetrics(ports.requests[0]!.body).map((metric) => [metric.name, metric]));
  }

  test("name a model that a channel lists, however many other names clients have invented", async () => {
    const ports = otlpPorts(undefined, { isListed: (model) => model === "large" });
    const exporter = new OtlpExporter(otlpSettings({ traces: false }), ports);
    exporter.start();
    const invented = Array.from({ length: 400 }, (_, at) => traced([attempt({ model: `invented-${at}` })], { model: `invented-${at}` }));
    offer(exporter, ...invented, traced());
    await ports.fire();
    const durations = readMetrics(ports.requests[0]!.body).find(({ name }) => name === "gen_ai.client.inference.duration")!;
    const counts = new Map(durations.points.map(({ attributes, count }) => [attributes["gen_ai.request.model"], count]));
    expect([counts.size, counts.get("large-1"), counts.get("other")]).toEqual([102, 1, 300]);
  });

  test("of the gateway and of the present conventions are exported together", async () => {
    const metrics = await exported("latest");
    expect(metrics.get("sluice_in_flight_requests")).toMatchObject({ kind: "gauge", points: [{ value: 3 }] });
    expect(metrics.get("process_cpu_seconds_total")).toMatchObject({ kind: "sum", unit: "s" });
    expect(metrics.get("gen_ai.client.inference.duration")).toMatchObject({
      kind: "histogram",
      unit: "s",
      points: [
        { count: 1, attributes: { "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "error.type": "overloaded" } },
        { count: 1, attributes: { "gen_ai.operation.name": "chat", "gen_ai.provider.name": "custom", "gen_ai.request.model": "large-1" } },
      ],
    });
    expect(Object.keys(metrics.get("gen_ai.client.inference.duration")!.points[1]!.attributes)).not.toContain("error.type");
    expect(metrics.get("gen_ai.client.embeddings.duration")?.points[0]?.attributes["gen_ai.provider.name"]).toBe("mistral_ai");
    expect(metrics.get("gen_ai.client.embeddings.operation.input_tokens")).toMatchObject({
      kind: "histogram",
      unit: "{token}",
      points: [{ count: 1, value: 100, attributes: { "gen_ai.operation.name": "embeddings", "gen_ai.request.model": "large-1" } }],
    });
    expect(metrics.get("gen_ai.client.inference.usage.output_tokens")).toMatchObject({ kind: "sum", unit: "{token}" });
    // The attempt that failed has used nothing, and embeddings are no inference.
    expect(metrics.get("gen_ai.client.inference.usage.cache_read.input_tokens")?.points.map(({ value }) => value)).toEqual([0, 40]);
    expect(metrics.has("gen_ai.client.inference.time_to_first_chunk")).toBe(true);
    expect(metrics.has("gen_ai.client.token.usage")).toBe(false);
  });

  test("of first chunks have the bounds of the conventions, and one observation for an answer of several parts", async () => {
    const ports = otlpPorts();
    const exporter = new OtlpExporter(otlpSettings({ traces: false }), ports);
    exporter.start();
    offer(exporter, traced([attempt(), attempt({ startedMs: 1_500, tookMs: 400 })]));
    await ports.fire();
    const metrics = readMetrics(ports.requests[0]!.body);
    const [point] = metrics.find(({ name }) => name === "gen_ai.client.inference.time_to_first_chunk")!.points;
    const bounds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
    expect([point?.count, point?.bounds]).toEqual([1, bounds]);
    // The conventions want an observation for each chunk, and not a mean of them.
    expect(metrics.some(({ name }) => name.endsWith("time_per_output_chunk"))).toBe(false);
  });

  test.each([
    ["latest", false],
    ["1.41", true],
  ] as const)(
    "of first chunks have those of speech, which is no inference, if they have one name for all operations: %s %p",
    async (conventions, has) => {
      const ports = otlpPorts();
      const exporter = new OtlpExporter(otlpSettings({ traces: false, conventions }), ports);
      exporter.start();
      offer(exporter, traced(undefined, { operation: "speech" }));
      await ports.fire();
      const names = readMetrics(ports.requests[0]!.body).map(({ name }) => name);
      expect(names).toContain("gen_ai.client.operation.duration");
      expect(names.some((name) => name.endsWith("time_to_first_chunk"))).toBe(has);
    },
  );

  test.each(["latest", "1.41"] as const)(
    "of tokens are those that upstreams reported, without our estimates, in %s",
    async (conventions) => {
      const ports = otlpPorts();
      const exporter = new OtlpExporter(otlpSettings({ traces: false, conventions }), ports);
      exporter.start();
      const silent = attempt({ usage: null, outputTokens: 70 });
      const partly = attempt({ usage: { ...nothingCounted, promptTokens: 100 }, outputTokens: 70 });
      const records = [traced([silent]), traced([partly]), traced([failedAttempt("disconnected")]), traced()];
      expect(receiptFor(records[0]!).attempts[0]).toMatchObject({ promptTokens: 10, completionTokens: 70, estimated: true });
      offer(exporter, ...records);
      await ports.fire();
      const metrics = new Map(readMetrics(ports.requests[0]!.body).map(({ name, points }) => [name, points]));
      if (conventions === "1.41") {
        const usage = metrics.get("gen_ai.client.token.usage")!;
        expect(usage.map(({ attributes, count, value }) => [attributes["gen_ai.token.type"], count, value])).toEqual([
          ["input", 2, 200],
          ["output", 1, 50],
        ]);
        return;
      }
      const sum = (name: string) => metrics.get(`gen_ai.client.inference.usage.${name}`)?.reduce((all, { value }) => all + value, 0);
      expect([sum("input_tokens"), sum("output_tokens"), sum("reasoning.output_tokens")]).toEqual([200, 50, 20]);
      // One observation for each operation, those included that failed or of which nothing was reported.
      for (const [name, value] of [
        ["input_tokens", 200],
        ["output_tokens", 50],
      ] as const) {
        const points = metrics.get(`gen_ai.client.inference.operation.${name}`)!;
        expect(points.map(({ attributes, count, value }) => [attributes["error.type"], count, value])).toEqual([
          [undefined, 3, value],
          ["disconnected", 1, 0],
        ]);
        expect(points[0]?.bounds?.slice(0, 3)).toEqual([1, 4, 16]);
        expect(points[0]?.attributes).not.toHaveProperty("gen_ai.token.modality");
      }
    },
  );

  test("wait for as long as the collector asks, up to five minutes", async () => {
    const answers = [7_000, 120_000, 3_600_000].map((retryAfterMs): PostOutcome => ({ ...taken, status: 503, retryAfterMs }));
    const ports = otlpPorts(() => answers.shift() ?? taken);
    new OtlpExporter(otlpSettings({ traces: false }), ports).start();
    const waits: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      waits.push(...ports.waits());
      await ports.fire();
    }
    expect(waits).toEqual([60_000, 60_000, 120_000, 300_000, 60_000]);
  });

  test.each(["1.41", "1.36"] as const)("have the older names of version %s where they are wanted", async (version) => {
    const metrics = await exported(version);
    expect(metrics.has("gen_ai.client.operation.duration")).toBe(true);
    expect(metrics.has("gen_ai.client.operation.time_to_first_chunk")).toBe(version === "1.41");
    expect(metrics.get("gen_ai.client.token.usage")?.points.map(({ attributes }) => attributes["gen_ai.token.type"])).toContain("output");
    const provider = version === "1.41" ? "gen_ai.provider.name" : "gen_ai.system";
    expect(Object.keys(metrics.get("gen_ai.client.operation.duration")!.points[0]!.attributes)).toContain(provider);
  });
});

describe("a collector that does not take it", () => {
  const busy: PostOutcome = { status: 503, retryAfterMs: 7_000, body: "", reason: "" };
  const away: PostOutcome = { status: null, retryAfterMs: null, body: "", reason: "connection refused" };

  test("is asked again, after the time that it asks for or a growing one", async () => {
    const answers = [busy, away, away, taken];
    const ports = otlpPorts(() => answers.shift()!);
    const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
    offer(exporter, traced());
    const waits: (readonly number[])[] = [];
    for (let round = 0; round < 4; round += 1) {
      waits.push(ports.waits());
      await ports.fire();
    }
    expect(waits).toEqual([[2_000], [7_000], [2_000], [4_000]]);
    expect(ports.requests.length).toBe(4);
    expect(ports.lost).toEqual([]);
  });

  test("is not asked again at once, even if it says so", async () => {
    const ports = otlpPorts(() => ({ ...busy, retryAfterMs: 0 }));
    offer(new OtlpExporter(otlpSettings({ metrics: false }), ports), traced());
    const waits: (readonly number[])[] = [];
    for (let round = 0; round < 3; round += 1) {
      waits.push(ports.waits());
      await ports.fire();
    }
    expect(waits).toEqual([[2_000], [1_000], [2_000]]);
  });

  test("costs the traces that it refused, or that were tried five times", async () => {
    for (const [answer, times] of [
      [{ ...busy, status: 400 }, 1],
      [away, 5],
    ] as const) {
      const ports = otlpPorts(() => answer);
      const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
      offer(exporter, traced());
      for (let round = 0; round < 10; round += 1) await ports.fire();
      expect(ports.requests.length).toBe(times);
      expect(ports.lost).toEqual([expect.stringMatching(/^traces 1 /)]);
    }
  });

  test("costs no more memory than a queue of bounded length, and what does not fit is counted", async () => {
    const ports = otlpPorts(() => away);
    const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
    offer(exporter, ...Array.from({ length: 5_000 }, () => traced()));
    const dropped = exporter.families().find(({ name }) => name === "sluice_otlp_dropped_total");
    expect(dropped?.series[0]?.value).toBeGreaterThan(2_500);
    await ports.fire();
  });

  test("costs no trace of a call that failed, however many healthy ones clients choose", async () => {
    const ports = otlpPorts();
    const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
    const cut = traced([attempt({ spanId: "2222222222222222" })], { state: "interrupted", failure: failure("interrupted", "cut") });
    offer(exporter, ...Array.from({ length: 5_000 }, () => traced()), ...Array.from({ length: 500 }, () => cut));
    const dropped = exporter.families().find(({ name }) => name === "sluice_otlp_dropped_total")!;
    await exporter.stop();
    const calls = ports.requests.flatMap(({ body }) => readTraces(body).filter(({ kind }) => kind === 2));
    const failed = calls.filter(({ attributes }) => attributes["error.type"] === "interrupted");
    expect([failed.length, calls.length + dropped.series[0]!.value]).toEqual([500, 5_500]);
  });

  test("may take a part only, and the rest counts as failed and is told", async () => {
    const ports = otlpPorts(() => ({ ...taken, body: '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}' }));
    const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
    offer(exporter, traced(), traced());
    await ports.fire();
    const value = (name: string) => exporter.families().find((one) => one.name === name)?.series[0]?.value;
    expect([value("sluice_otlp_exported_total"), value("sluice_otlp_failed_total")]).toEqual([1, 1]);
    expect(ports.lost).toEqual(["traces 1 the collector left out 1 of what was sent: too old"]);
  });

  test.each([
    ['{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"no such tenant"}}', [0, 1]],
    ['{"partialSuccess":{"rejectedDataPoints":0,"errorMessage":"only a warning"}}', [1, 0]],
    ['{"partialSuccess":{}}', [1, 0]],
    ["null", [1, 0]],
    ["", [1, 0]],
  ])("that answers a report of metrics with %s has taken and failed %j", async (body, counts) => {
    const ports = otlpPorts(() => ({ ...taken, body }));
    const exporter = new OtlpExporter(otlpSettings({ traces: false }), ports);
    exporter.start();
    await ports.fire();
    const value = (name: string) =>
      exporter
        .families()
        .find((one) => one.name === name)
        ?.series.find(({ labels }) => labels[0] === "metrics")?.value;
    expect([value("sluice_otlp_exported_total"), value("sluice_otlp_failed_total")]).toEqual(counts);
    expect(ports.lost.length).toBe(counts[1] ?? 0);
  });

  test("gets what waits once more at the end", async () => {
    const ports = otlpPorts();
    const exporter = new OtlpExporter(otlpSettings(), ports);
    offer(exporter, traced());
    await exporter.stop();
    expect(ports.requests.map(({ url }) => url.replace(/.*\//, "")).toSorted()).toEqual(["metrics", "traces"]);
  });

  test("gets all that waits at the end, and what waits for a later try is not waited for", async () => {
    const answers = [{ ...busy, retryAfterMs: 3_600_000 }];
    const ports = otlpPorts(() => answers.shift() ?? taken);
    const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
    offer(exporter, ...Array.from({ length: 1_000 }, () => traced()));
    // The first batch is sent, and comes again in five minutes, however long the collector asks to wait.
    await ports.fire();
    expect(ports.waits()).toEqual([300_000]);
    await exporter.stop();
    const value = (name: string) => exporter.families().find((one) => one.name === name)?.series[0]?.value;
    expect([value("sluice_otlp_exported_total"), value("sluice_otlp_failed_total"), value("sluice_otlp_dropped_total")]).toEqual([
      1_000, 0, 0,
    ]);
    expect(ports.lost).toEqual([]);
  });

  test("that hangs at the end costs what waits and what is on its way, and both are told once", async () => {
    const pending: ((outcome: PostOutcome) => void)[] = [];
    const ports = otlpPorts(undefined, { post: () => new Promise((resolve) => void pending.push(resolve)) });
    const exporter = new OtlpExporter(otlpSettings(), ports);
    offer(exporter, ...Array.from({ length: 300 }, () => traced()));
    const stopped = exporter.stop();
    expect(pending.length).toBe(2);
    exporter.abandon();
    const expected = ["traces 300 the gateway ended before they were delivered", "metrics 1 the gateway ended before they were delivered"];
    expect(ports.lost).toEqual(expected);
    expect(exporter.families().find(({ name }) => name === "sluice_otlp_dropped_total")?.series[0]?.value).toBe(300);
    for (const answer of pending) answer({ ...taken, status: null, reason: "late" });
    await stopped;
    exporter.abandon();
    expect(ports.lost).toEqual(expected);
  });

  test("that was never asked for a last report, because the process ends at once, misses it, which is told", () => {
    for (const metrics of [true, false]) {
      const ports = otlpPorts();
      new OtlpExporter(otlpSettings({ metrics }), ports).abandon();
      expect(ports.lost).toEqual(metrics ? ["metrics 1 the gateway ended before they were delivered"] : []);
    }
  });

  test("that another one replaces gets what waits with all tries, for ten minutes, and the loss is told", async () => {
    const ports = otlpPorts(() => ({ ...busy, retryAfterMs: 3_600_000 }));
    const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
    offer(exporter, ...Array.from({ length: 1_000 }, () => traced()));
    const drained = exporter.drain();
    offer(exporter, traced());
    for (let tries = 0; tries < 6; tries += 1) await ports.fire(300_000);
    // Five tries of the first batch, and two of the next one by now.
    expect([ports.requests.length, ports.lost]).toEqual([7, ["traces 256 the collector answered with 503"]]);
    expect(ports.waits().filter((ms) => ms > 300_000)).toEqual([600_000]);
    await ports.fire();
    await drained;
    expect(ports.lost.slice(1)).toEqual([
      "traces 256 the collector answered with 503",
      "traces 256 the collector answered with 503",
      "traces 232 the collector was replaced, and did not take them in time",
    ]);
    const dropped = exporter.families().find(({ name }) => name === "sluice_otlp_dropped_total");
    expect(dropped?.series[0]?.value).toBe(233);
    await exporter.stop();
    expect(ports.requests.length).toBe(9);
  });

  test("that is away at the end is tried once with what waits, and the loss is told", async () => {
    const ports = otlpPorts(() => away);
    const exporter = new OtlpExporter(otlpSettings({ metrics: false }), ports);
    offer(exporter, ...Array.from({ length: 1_000 }, () => traced()));
    await ports.fire();
    const before = ports.requests.length;
    await exporter.stop();
    // The batch that was to be tried again, and the next one.
    expect(ports.requests.length - before).toBe(2);
    expect(ports.lost).toEqual([
      "traces 256 connection refused",
      "traces 256 connection refused",
      "traces 488 the gateway ended before they could be sent",
    ]);
  });
});
