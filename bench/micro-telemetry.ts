import { SpanIds, TraceSampler, traceHeaders, traceOf } from "../src/gateway/trace.ts";
import { OtlpExporter, type OtlpPorts } from "../src/telemetry/otlp/otlp-exporter.ts";
import { spansOf } from "../src/telemetry/otlp/spans.ts";
import { shownAs } from "../src/http/errors.ts";
import { CallMetrics } from "../src/telemetry/metrics/call-metrics.ts";
import { MetricRegistry } from "../src/telemetry/metrics/registry.ts";
import { attempt, callRecord, failedAttempt, receiptFor } from "../test/support/call-records.ts";

/** What telemetry costs per call: microseconds of one core, without any network. It is to stay below two. */
function measure(name: string, step: (at: number) => unknown): void {
  const times = 200_000;
  let best = Infinity;
  for (let round = 0; round < 5; round++) {
    const began = process.cpuUsage();
    for (let at = 0; at < times; at++) step(at);
    const { user, system } = process.cpuUsage(began);
    best = Math.min(best, (user + system) / times);
  }
  console.log(`${name.padEnd(60)} ${best.toFixed(3)} us`);
}

const settled = (models: number) =>
  Array.from({ length: models }, (_, at) => {
    const record = callRecord([attempt({ channel: `channel-${at % 10}` })], { model: `model-${at}`, keyId: `key-${at}` });
    return { record, receipt: receiptFor(record) };
  });
const one = settled(1);
const many = settled(200);
const failover = (() => {
  const record = callRecord([failedAttempt("overloaded"), attempt({ channel: "two" })]);
  return { record, receipt: receiptFor(record) };
})();

const plain = new CallMetrics(new MetricRegistry(), false, (failure) => shownAs(failure).code);
const withKeys = new CallMetrics(new MetricRegistry(), true, (failure) => shownAs(failure).code);
measure("metrics of a streamed call", () => plain.observe(one[0]!.record, one[0]!.receipt));
measure("the same, of 200 models in turn", (at) => plain.observe(many[at % 200]!.record, many[at % 200]!.receipt));
measure("the same, with labels for keys", (at) => withKeys.observe(many[at % 200]!.record, many[at % 200]!.receipt));
measure("metrics of a call with a failover", () => plain.observe(failover.record, failover.receipt));

const trace = {
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  parentId: null,
  sampled: false,
  state: null,
  passedOn: true,
  path: "/v1/chat/completions",
};
const { path } = trace;
const ports: OtlpPorts = {
  post: () => Promise.resolve({ status: 200, retryAfterMs: null, body: "", reason: "" }),
  nowMs: () => performance.now(),
  wallMs: Date.now,
  after: () => () => {},
  dice: Math.random,
  onLoss: () => {},
  scheme: "http",
  isListed: () => true,
  families: () => [],
  countedFromMs: Date.now(),
  resource: {},
};
const exporter = new OtlpExporter(
  {
    endpoint: "http://127.0.0.1:9",
    headers: {},
    traces: true,
    metrics: true,
    serviceName: "sluice",
    conventions: "latest",
    share: 0,
    slowMs: 1e6,
    intervalMs: 60_000,
    propagate: true,
  },
  ports,
);
const traced = many.map(({ record, receipt }) => ({ record: { ...record, trace }, receipt }));
const sampler = new TraceSampler(0.05, 100, Math.random);
const spanIds = new SpanIds(Math.random);
const name = "req_019a9b1c00007abc8def0123456789ab";
const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
measure("OTLP: a call that is not sampled, with GenAI metrics", (at) =>
  exporter.observe(traced[at % 200]!.record, traced[at % 200]!.receipt),
);
const exported = {
  ...traced[0]!,
  record: callRecord([attempt({ spanId: "00f067aa0ba902b7" })]),
  trace,
  spanId: "00f067aa0ba902b8",
  wallOffsetMs: 0,
};
measure("OTLP: the spans of a call that is exported", () => JSON.stringify(spansOf(exported, "latest", "http")));
measure("OTLP: the trace of a call without a traceparent", () =>
  traceHeaders(traceOf(name, { parent: null, state: null, path }, 0, { sampler, passedOn: true }), spanIds.next(), {}),
);
measure("OTLP: the trace of a call with one", () =>
  traceHeaders(traceOf(name, { parent, state: null, path }, 0, { sampler, passedOn: true }), spanIds.next(), {}),
);
