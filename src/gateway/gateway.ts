import type { Dialect } from "../dialects/dialect.ts";
import type { Failure } from "../operations/failure.ts";
import type { UpstreamState } from "./upstream-state/upstream-state.ts";
import type { CallFacts } from "./call.ts";
import type { Ledger } from "./admission/ledger.ts";
import { LiveCalls } from "./admission/live-calls.ts";
import type { Ports } from "./ports.ts";
import type { CallRecord, Persisted } from "./settlement/record.ts";
import { FairQueue } from "./admission/fair-queue.ts";
import { SpanIds } from "./trace.ts";

/** What calls are served with. It outlives calls and configuration reloads. */
export class Gateway {
  readonly calls = new LiveCalls();
  readonly fairQueue: FairQueue;
  readonly spanIds: SpanIds;

  constructor(
    readonly ports: Ports,
    readonly upstreams: UpstreamState,
    readonly dialects: ReadonlyMap<string, Dialect>,
    readonly ledger: Ledger,
    readonly record: (record: CallRecord) => Persisted = ledger.record,
    fairQueue: FairQueue | null = null,
    /** It serves the parts of one long call, which have an order and wait for one another. */
    readonly servesParts = false,
  ) {
    this.fairQueue = fairQueue ?? new FairQueue(ports);
    this.spanIds = new SpanIds(ports.dice);
  }

  /** The same gateway for the parts of a long call: their records are collected and become part of the record of the call. */
  collecting(records: CallRecord[]): Gateway {
    const collect = (record: CallRecord): Persisted => {
      records.push(record);
      return null;
    };
    return new Gateway(this.ports, this.upstreams, this.dialects, this.ledger, collect, this.fairQueue, true);
  }

  /** Records a request that was rejected before it became a call. */
  refused(facts: Readonly<CallFacts>, failure: Failure, status: number): Persisted {
    return this.record({
      ...facts,
      status,
      state: failure.kind === "client_gone" ? "abandoned" : "failed",
      failure,
      attempts: [],
      endedMs: this.ports.nowMs(),
      firstContentMs: null,
      usage: null,
      finish: null,
      bytesOut: 0,
      chunks: 0,
      clampedTo: null,
      skippedEvents: 0,
      plan: null,
    });
  }
}
