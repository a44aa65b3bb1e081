import { isSpent, type BudgetUse } from "../../limits/budget-use.ts";
import { gauge, plainGauge, type MetricFamily, type MetricSeries } from "./family.ts";

/** The state of a gateway at the moment of a scrape. */
export interface GatewayState {
  readonly version: string;
  readonly runtime: string;
  readonly inFlight: number;
  /** Calls that wait for a free slot of a channel. */
  readonly waitingForCapacity: number;
  /** How late the event loop is. */
  readonly loopDelayMs: number;
  readonly channels: readonly ChannelState[];
  readonly journal: {
    readonly bytes: number;
    readonly receipts: number;
    /** How long the oldest of these receipts has waited. */
    readonly oldestMs: number;
    readonly full: boolean;
  };
  readonly store: { readonly kind: string; readonly ok: boolean };
  readonly limits: { readonly kind: string; readonly ok: boolean };
  readonly engines: readonly { readonly engine: string; readonly state: string }[];
  readonly droppedLogLines: number;
  /** Null: the listeners speak plain HTTP. */
  readonly certificateExpiresMs: number | null;
  readonly process: {
    readonly residentBytes: number;
    readonly heapBytes: number;
    readonly externalBytes: number;
    readonly cpuSeconds: number;
    readonly startedSeconds: number;
  };
}

export interface ChannelState {
  readonly name: string;
  readonly running: number;
  readonly runningMax: number;
  /** Some candidate of the channel may be asked, if only as a probe. */
  readonly isAvailable: boolean;
  /** Some candidate of the channel has no breaker that is open or half open: it is not only tried, it works. */
  readonly isProven: boolean;
  readonly openBreakers: number;
  readonly halfOpenBreakers: number;
}

/** The states of an engine, of which it has one. */
const engineStates = ["running", "starting", "backoff", "stopped"];

export function stateFamilies(state: GatewayState): readonly MetricFamily[] {
  // Their number is chosen by the operator, but the limit of calls' metrics holds here as well.
  const channels = state.channels.slice(0, channelsMax);
  const ofChannels = (name: string, help: string, value: (channel: ChannelState) => number): MetricFamily =>
    gauge(
      name,
      help,
      ["channel"],
      channels.map((channel) => ({ labels: [channel.name], value: value(channel) })),
    );
  return [
    gauge(
      "sluice_build_info",
      "The version of the gateway and of its runtime.",
      ["version", "runtime"],
      [{ labels: [state.version, state.runtime], value: 1 }],
    ),
    plainGauge("sluice_in_flight_requests", "Requests that are being served.", state.inFlight),
    plainGauge("sluice_waiting_for_capacity", "Calls that wait for a free slot of a channel.", state.waitingForCapacity),
    plainGauge(
      "sluice_event_loop_delay_seconds",
      "How late the event loop is, which is what new requests wait for.",
      state.loopDelayMs / 1000,
    ),
    ofChannels("sluice_channel_in_flight", "Attempts that are running on a channel.", ({ running }) => running),
    ofChannels("sluice_channel_concurrency_limit", "Attempts that may run on a channel at the same time.", ({ runningMax }) => runningMax),
    ofChannels("sluice_channel_available", "1 if a channel may be asked, 0 if everything it serves cools down.", ({ isAvailable }) =>
      isAvailable ? 1 : 0,
    ),
    gauge(
      "sluice_circuit_breakers",
      "Circuit breakers of a channel that are not closed.",
      ["channel", "state"],
      channels.flatMap(breakersOf),
    ),
    plainGauge("sluice_journal_waiting_bytes", "Bytes of receipts that are in the journal and not in the store yet.", state.journal.bytes),
    plainGauge("sluice_journal_waiting_receipts", "Receipts that are in the journal and not in the store yet.", state.journal.receipts),
    plainGauge(
      "sluice_journal_oldest_receipt_seconds",
      "How long the oldest of these receipts has waited; 0 if none does.",
      state.journal.oldestMs / 1000,
    ),
    plainGauge(
      "sluice_journal_full",
      "1 if no more receipts fit, and calls of keys with a budget are refused.",
      state.journal.full ? 1 : 0,
    ),
    up("sluice_store_up", "1 if the store can be reached.", state.store),
    up("sluice_shared_limits_up", "1 if the limits that processes share can be reached.", state.limits),
    gauge("sluice_engine_state", "The state that a local engine has.", ["engine", "state"], state.engines.flatMap(engineSeries)),
    {
      ...plainGauge(
        "sluice_log_lines_dropped_total",
        "Lines of the log that were lost: its reader was too slow or gone, or a disk was full for too long or failed.",
        state.droppedLogLines,
      ),
      type: "counter",
    },
    ...(state.certificateExpiresMs === null
      ? []
      : [
          plainGauge(
            "sluice_tls_certificate_expiry_seconds",
            "When the certificate of the listeners expires, in seconds since 1970.",
            state.certificateExpiresMs / 1000,
          ),
        ]),
    plainGauge("process_resident_memory_bytes", "Resident memory of the process.", state.process.residentBytes),
    plainGauge("process_start_time_seconds", "When the process started, in seconds since 1970.", state.process.startedSeconds),
    { ...plainGauge("process_cpu_seconds_total", "Processor time of the process.", state.process.cpuSeconds), type: "counter" },
    plainGauge("sluice_heap_bytes", "Memory of the process that values of the program use.", state.process.heapBytes),
    plainGauge("sluice_external_bytes", "Memory outside of the heap that these values keep, such as buffers.", state.process.externalBytes),
  ];
}

function breakersOf({ name, openBreakers, halfOpenBreakers }: ChannelState): readonly MetricSeries[] {
  return [
    { labels: [name, "open"], value: openBreakers },
    { labels: [name, "half_open"], value: halfOpenBreakers },
  ];
}

function up(name: string, help: string, { kind, ok }: GatewayState["store"]): MetricFamily {
  return gauge(name, help, ["kind"], [{ labels: [kind], value: ok ? 1 : 0 }]);
}

function engineSeries({ engine, state }: GatewayState["engines"][number]): readonly MetricSeries[] {
  return engineStates.map((one) => ({ labels: [engine, one], value: one === state ? 1 : 0 }));
}

/** One budget of a key or a group, and what was spent of it. */
export interface BudgetState extends BudgetUse {
  readonly of: "key" | "group";
  readonly id: string;
  readonly name: string;
  /** Its label: the pattern of models it is for, `#` and its name if it has a selector, or nothing. */
  readonly models: string;
  /** When the present period began; null for a budget without one. */
  readonly sinceMs: number | null;
}

export function budgetFamilies(budgets: readonly BudgetState[]): readonly MetricFamily[] {
  const ofBudgets = (of: BudgetState["of"], name: string, help: string, value: (budget: BudgetState) => number): MetricFamily =>
    gauge(
      name,
      help,
      [of, "models"],
      budgets.filter((budget) => budget.of === of).map((budget) => ({ labels: [budget.id, budget.models], value: value(budget) })),
    );
  const limit = ({ limitNanos }: BudgetState): number => limitNanos * 1e-9;
  const left = ({ limitNanos, spentNanos }: BudgetState): number => Math.max(0, limitNanos - spentNanos) * 1e-9;
  const refused = (budget: BudgetState): number => (isSpent(budget) ? 1 : 0);
  const refuses = "1 if calls are refused because too little is left in the present period of the budget";
  return [
    ofBudgets("key", "sluice_budget_limit_usd", "The budget of a key in its present period.", limit),
    ofBudgets("key", "sluice_budget_left_usd", "What is left of the budget of a key in its present period.", left),
    ofBudgets("key", "sluice_budget_refused", `${refuses} of a key.`, refused),
    ofBudgets("group", "sluice_group_budget_limit_usd", "The budget of a group in its present period.", limit),
    ofBudgets("group", "sluice_group_budget_left_usd", "What is left of the budget of a group in its present period.", left),
    ofBudgets("group", "sluice_group_budget_refused", `${refuses} of a group.`, refused),
  ];
}

const channelsMax = 300;
