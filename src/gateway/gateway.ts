import type { Adapter } from "../adapters/adapter.ts";
import type { Failure } from "../operations/failure.ts";
import type { Board } from "./board.ts";
import type { Call, CallFacts } from "./call.ts";
import { LiveCalls } from "./live-calls.ts";
import type { Ports } from "./ports.ts";
import type { CallRecord } from "./record.ts";
import { serve, type Answer } from "./serve.ts";

export type { Answer } from "./serve.ts";

/** The parts a call is served with, which outlive calls and reloads. */
export class Gateway {
  readonly calls = new LiveCalls();

  constructor(
    readonly ports: Ports,
    readonly board: Board,
    readonly adapters: ReadonlyMap<string, Adapter>,
    readonly record: (record: CallRecord) => void,
  ) {}

  serve(call: Call): Promise<Answer> {
    return serve(call, this);
  }

  /** A request that never became a call is recorded all the same. */
  refused(facts: CallFacts, failure: Failure, status: number): void {
    this.record({
      ...facts,
      status,
      state: failure.kind === "client_gone" ? "abandoned" : "failed",
      failure,
      tries: [],
      endedMs: this.ports.nowMs(),
      firstContentMs: null,
      usage: null,
      finish: null,
      bytesOut: 0,
      clampedTo: null,
      skippedEvents: 0,
    });
  }
}
