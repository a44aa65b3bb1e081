import type { Adapter } from "../adapters/adapter.ts";
import type { Failure } from "../operations/failure.ts";
import type { Board } from "./board.ts";
import type { Call, CallFacts } from "./call.ts";
import { LiveCalls } from "./live-calls.ts";
import type { Ports } from "./ports.ts";
import type { CallRecord } from "./record.ts";
import { serveLongSpeech } from "./long-speech.ts";
import { serveLongTranscription } from "./long-transcription.ts";
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
    if (!call.split) return serve(call, this);
    return call.ask.operation === "transcription" ? serveLongTranscription(call, this) : serveLongSpeech(call, this);
  }

  /** The same gateway for the parts of one call: they are recorded with the call and not each for itself. */
  collecting(records: CallRecord[]): Gateway {
    return new Gateway(this.ports, this.board, this.adapters, (record) => void records.push(record));
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
