import { describe, expect, test } from "bun:test";
import { CallTelemetry } from "../../../src/app/telemetry/call-telemetry.ts";
import type { OtelSettings, Settings } from "../../../src/config/settings.ts";
import type { CallRecord } from "../../../src/gateway/settlement/record.ts";
import { stateFamilies } from "../../../src/telemetry/metrics/state-metrics.ts";
import type { OtlpPorts, PostOutcome } from "../../../src/telemetry/otlp/otlp-exporter.ts";
import { attempt, callRecord, receiptFor } from "../../support/call-records.ts";
import { readMetrics, readTraces } from "../../support/otlp.ts";
import { gatewayState, otlpPorts, otlpSettings, taken } from "../../support/telemetry.ts";

const metrics: Settings["metrics"] = { enabled: false, public: false, token: null, dataPort: false, keyLabels: false, budgets: false };

function otel(facts: Partial<OtelSettings> = {}): OtelSettings {
  return { ...otlpSettings(), tracesPerSecond: 100, ...facts };
}

function telemetry(facts: Partial<OtlpPorts> = {}, answer?: (url: string) => PostOutcome) {
  const counted: string[] = [];
  const ports = otlpPorts(answer, { families: () => stateFamilies(gatewayState), ...facts });
  const { count, live } = { count: (record: CallRecord) => void counted.push(record.id), live: null };
  const made = new CallTelemetry({ ports, count, live, onBug: (error) => expect.unreachable(String(error)) });
  const settle = (id: string, sampled = true): void => {
    const trace = { traceId: id.padEnd(32, "0"), parentId: null, sampled, state: null, passedOn: true, path: "/" };
    const record = callRecord([attempt({ spanId: "2222222222222222" })], { id, trace });
    made.observe(record, receiptFor(record));
  };
  const traced = (): readonly string[] =>
    ports.requests
      .filter(({ url }) => url.endsWith("/v1/traces"))
      .flatMap(({ url, body }) =>
        readTraces(body)
          .filter(({ kind }) => kind === 2)
          .map(({ attributes }) => `${new URL(url).hostname} ${String(attributes["sluice.request_id"])}`),
      );
  /** A counter of the export itself. */
  const total = (what: "exported" | "dropped" | "failed", signal: "traces" | "metrics"): number | undefined =>
    made
      .families()
      .find(({ name }) => name === `sluice_otlp_${what}_total`)
      ?.series.find(({ labels }) => labels[0] === signal)?.value;
  return { made, ports, counted, settle, traced, total };
}

describe("a changed configuration", () => {
  test("sends the traces of calls that were settled before to the collector of that time, and later ones to the new one", async () => {
    const { made, ports, settle, traced } = telemetry();
    made.configure({ metrics, otel: otel({ metrics: false }) });
    made.start();
    settle("a1");
    made.configure({ metrics, otel: otel({ metrics: false, endpoint: "http://other.test:4318" }) });
    settle("b2");
    made.flush();
    await ports.fire();
    expect(traced().toSorted()).toEqual(["collector.test a1", "other.test b2"]);
    expect(ports.lost).toEqual([]);
  });

  test("that switches the export off ends traces and counting, and one that switches it on begins them", async () => {
    const { made, ports, counted, settle, traced } = telemetry();
    made.configure({ metrics, otel: null });
    made.start();
    expect([made.traceRules(), made.isCounting]).toEqual([null, false]);
    settle("a1");
    made.configure({ metrics, otel: otel({ propagate: false }) });
    expect([made.traceRules()?.passedOn, made.isCounting]).toEqual([false, true]);
    settle("b2");
    made.configure({ metrics, otel: null });
    expect([made.traceRules(), made.isCounting]).toEqual([null, false]);
    settle("c3");
    made.flush();
    await ports.fire();
    expect([counted, traced()]).toEqual([["b2"], ["collector.test b2"]]);
  });

  test("does not cost what an old collector gets that recovers soon, and the new one waits for nothing", async () => {
    let isAway = false;
    const away = { ...taken, status: null, reason: "connection refused" };
    const { made, ports, settle, traced, total } = telemetry({}, (url) => (isAway && url.includes("collector.test") ? away : taken));
    made.configure({ metrics, otel: otel({ metrics: false }) });
    made.start();
    settle("a1");
    made.flush();
    await ports.fire();
    isAway = true;
    settle("a2");
    made.configure({ metrics, otel: otel({ metrics: false, endpoint: "http://other.test:4318" }) });
    settle("b3");
    made.flush();
    for (let tries = 0; tries < 2; tries += 1) await ports.fire(60_000);
    expect(traced().toSorted()).toEqual(["collector.test a1", "collector.test a2", "collector.test a2", "other.test b3"]);
    expect(total("exported", "traces")).toBe(2);
    isAway = false;
    await ports.fire(60_000);
    expect([traced().length, total("exported", "traces"), ports.lost]).toEqual([5, 3, []]);
    // It has ended, and waits for nothing more.
    await ports.fire();
    expect(traced().length).toBe(5);
  });

  test("leaves what is counted of the export, also what an old collector did not take", async () => {
    const refused = { ...taken, status: 400 };
    const { made, ports, settle, total } = telemetry({}, (url) => (url.includes("collector.test") ? refused : taken));
    const counts = () => [total("exported", "traces"), total("failed", "traces"), total("exported", "metrics"), total("failed", "metrics")];
    made.configure({ metrics, otel: otel() });
    made.start();
    expect(counts()).toEqual([0, 0, 0, 0]);
    settle("a1");
    made.configure({ metrics, otel: otel({ endpoint: "http://other.test:4318" }) });
    settle("b2");
    made.flush();
    await ports.fire(2_000);
    expect(counts()).toEqual([1, 1, 0, 1]);
    made.configure({ metrics, otel: null });
    await ports.fire();
    expect([counts(), total("dropped", "traces")]).toEqual([[1, 1, 1, 1], 0]);
  });

  test("of what is sampled alone leaves the queue, and holds for the calls that follow", async () => {
    const { made, ports, settle, traced } = telemetry();
    made.configure({ metrics, otel: otel({ metrics: false }) });
    made.start();
    settle("a1");
    settle("a2", false);
    made.configure({ metrics, otel: otel({ metrics: false, share: 1, tracesPerSecond: 7, slowMs: 1, propagate: false }) });
    settle("b1", false);
    made.flush();
    await Promise.resolve();
    expect([ports.requests, made.traceRules()?.passedOn]).toEqual([[], false]);
    await ports.fire();
    expect([traced(), ports.requests.length]).toEqual([["collector.test a1", "collector.test b1"], 1]);
  });

  test("that leaves the export as it is leaves the queue, the counts and the timers of it", async () => {
    const { made, ports, settle } = telemetry();
    made.configure({ metrics, otel: otel() });
    made.start();
    settle("a1");
    const rules = made.traceRules();
    made.configure({ metrics, otel: otel() });
    expect([made.traceRules(), ports.requests, ports.waits().filter((ms) => ms === 60_000)]).toEqual([rules, [], [60_000]]);
  });

  test("exports what the process has counted since before the export began", async () => {
    const { made, ports } = telemetry();
    made.configure({ metrics, otel: otel({ traces: false }) });
    made.start();
    await ports.fire();
    const [{ body } = { body: "" }] = ports.requests;
    const starts = /"name":"process_cpu_seconds_total".*?"startTimeUnixNano":"(\d+)"/.exec(body);
    expect([readMetrics(body).length > 0, starts?.[1]]).toEqual([true, "1700000000000000000"]);
  });
});

test("what a collector did not take before the gateway ends is told, also by one of an earlier configuration", async () => {
  const { made, ports, settle } = telemetry({ post: () => new Promise(() => {}) });
  made.configure({ metrics, otel: otel({ metrics: false }) });
  made.start();
  settle("a1");
  made.configure({ metrics, otel: otel({ metrics: false, endpoint: "http://other.test:4318" }) });
  settle("b2");
  settle("c3");
  void made.stop();
  expect(ports.lost).toEqual([]);
  made.abandon();
  const reason = "the gateway ended before they were delivered";
  expect(ports.lost.toSorted()).toEqual([`traces 1 ${reason}`, `traces 2 ${reason}`]);
});
