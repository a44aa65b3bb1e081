import { describe, expect, test } from "bun:test";
import { exposition } from "../../../../src/telemetry/metrics/exposition.ts";
import type { MetricFamily } from "../../../../src/telemetry/metrics/family.ts";
import { budgetFamilies, stateFamilies, type BudgetState, type GatewayState } from "../../../../src/telemetry/metrics/state-metrics.ts";

/** No two of its numbers are the same, so that one in the place of another is seen. */
const state: GatewayState = {
  version: "1.2.3",
  runtime: "bun 4.5.6",
  inFlight: 11,
  waitingForCapacity: 12,
  loopDelayMs: 13_500,
  channels: [
    { name: "one", running: 21, runningMax: 22, isAvailable: true, isProven: false, openBreakers: 23, halfOpenBreakers: 24 },
    { name: "two", running: 31, runningMax: 32, isAvailable: false, isProven: true, openBreakers: 33, halfOpenBreakers: 34 },
  ],
  journal: { bytes: 41, receipts: 42, oldestMs: 43_500, full: true },
  store: { kind: "postgres", ok: true },
  limits: { kind: "redis", ok: false },
  engines: [
    { engine: "chat", state: "running" },
    { engine: "speech", state: "starting" },
    { engine: "transcription", state: "backoff" },
    { engine: "embedding", state: "stopped" },
  ],
  droppedLogLines: 51,
  certificateExpiresMs: 52_500,
  process: { residentBytes: 61, heapBytes: 62, externalBytes: 63, cpuSeconds: 64.5, startedSeconds: 65 },
};

/** The series as a scrape shows them. */
function shown(families: readonly MetricFamily[]): readonly string[] {
  return exposition(families)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
}

describe("the state of a gateway", () => {
  test("is shown whole, each part of it under its own name", () => {
    expect(shown(stateFamilies(state))).toEqual([
      'sluice_build_info{version="1.2.3",runtime="bun 4.5.6"} 1',
      "sluice_in_flight_requests 11",
      "sluice_waiting_for_capacity 12",
      "sluice_event_loop_delay_seconds 13.5",
      'sluice_channel_in_flight{channel="one"} 21',
      'sluice_channel_in_flight{channel="two"} 31',
      'sluice_channel_concurrency_limit{channel="one"} 22',
      'sluice_channel_concurrency_limit{channel="two"} 32',
      'sluice_channel_available{channel="one"} 1',
      'sluice_channel_available{channel="two"} 0',
      'sluice_circuit_breakers{channel="one",state="open"} 23',
      'sluice_circuit_breakers{channel="one",state="half_open"} 24',
      'sluice_circuit_breakers{channel="two",state="open"} 33',
      'sluice_circuit_breakers{channel="two",state="half_open"} 34',
      "sluice_journal_waiting_bytes 41",
      "sluice_journal_waiting_receipts 42",
      "sluice_journal_oldest_receipt_seconds 43.5",
      "sluice_journal_full 1",
      'sluice_store_up{kind="postgres"} 1',
      'sluice_shared_limits_up{kind="redis"} 0',
      ...engine("chat", "running"),
      ...engine("speech", "starting"),
      ...engine("transcription", "backoff"),
      ...engine("embedding", "stopped"),
      "sluice_log_lines_dropped_total 51",
      "sluice_tls_certificate_expiry_seconds 52.5",
      "process_resident_memory_bytes 61",
      "process_start_time_seconds 65",
      "process_cpu_seconds_total 64.5",
      "sluice_heap_bytes 62",
      "sluice_external_bytes 63",
    ]);
    const counters = stateFamilies(state).filter(({ type }) => type === "counter");
    expect(counters.map(({ name }) => name)).toEqual(["sluice_log_lines_dropped_total", "process_cpu_seconds_total"]);
  });

  test("is shown the other way round where each yes is a no", () => {
    const { journal, store, limits } = state;
    const other = { ...state, journal: { ...journal, full: false }, store: { ...store, ok: false }, limits: { ...limits, ok: true } };
    expect(shown(stateFamilies(other)).filter((line) => /journal_full|store_up|limits_up/.test(line))).toEqual([
      "sluice_journal_full 0",
      'sluice_store_up{kind="postgres"} 0',
      'sluice_shared_limits_up{kind="redis"} 1',
    ]);
  });

  test("has no certificate that expires where the listeners speak plain HTTP", () => {
    expect(shown(stateFamilies({ ...state, certificateExpiresMs: null })).filter((line) => line.includes("certificate"))).toEqual([]);
  });

  test("has the series of at most 300 channels", () => {
    const [first] = state.channels;
    const channels = Array.from({ length: 301 }, (_, at) => ({ ...first!, name: `channel ${at}` }));
    const counts = stateFamilies({ ...state, channels }).flatMap(({ labels, series }) => (labels.includes("channel") ? series.length : []));
    expect(counts).toEqual([300, 300, 300, 600]);
  });
});

describe("what is left of budgets", () => {
  const budget = { name: "laptop", sinceMs: 1, isRefusing: false };
  const budgets: readonly BudgetState[] = [
    { ...budget, of: "key", id: "k1", models: "", limitNanos: 8e9, spentNanos: 2e9 },
    { ...budget, of: "key", id: "k2", models: "gpt-*", limitNanos: 16e9, spentNanos: 17e9 },
    { ...budget, of: "group", id: "g1", models: "", limitNanos: 32e9, spentNanos: 16e9 },
    { ...budget, of: "group", id: "g2", models: "#spare", limitNanos: 64e9, spentNanos: 60e9, isRefusing: true },
  ];

  test("is shown of keys and of groups under names of their own, and never below nothing", () => {
    expect(shown(budgetFamilies(budgets))).toEqual([
      'sluice_budget_limit_usd{key="k1",models=""} 8',
      'sluice_budget_limit_usd{key="k2",models="gpt-*"} 16',
      'sluice_budget_left_usd{key="k1",models=""} 6',
      'sluice_budget_left_usd{key="k2",models="gpt-*"} 0',
      'sluice_budget_refused{key="k1",models=""} 0',
      'sluice_budget_refused{key="k2",models="gpt-*"} 1',
      'sluice_group_budget_limit_usd{group="g1",models=""} 32',
      'sluice_group_budget_limit_usd{group="g2",models="#spare"} 64',
      'sluice_group_budget_left_usd{group="g1",models=""} 16',
      'sluice_group_budget_left_usd{group="g2",models="#spare"} 4',
      'sluice_group_budget_refused{group="g1",models=""} 0',
      'sluice_group_budget_refused{group="g2",models="#spare"} 1',
    ]);
  });
});

function engine(name: string, state: string): readonly string[] {
  const states = ["running", "starting", "backoff", "stopped"];
  return states.map((one) => `sluice_engine_state{engine="${name}",state="${one}"} ${one === state ? 1 : 0}`);
}
