import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Call } from "../call.ts";
import { Cancellation } from "../cancellation.ts";
import type { Gateway } from "../gateway.ts";
import type { ReadAheadLimit } from "./read-ahead-limit.ts";
import type { CallRecord } from "../settlement/record.ts";
import type { CallResult, OutputSource } from "../call-result.ts";
import { serve } from "../serve.ts";

/**
 * One part of a long text, as a call of its own that is cancelled with the whole call. Before its turn it is read ahead as far as
 * memory allows; after that, as fast as the client reads.
 */
export class SpeechPart {
  readonly records: CallRecord[] = [];
  /** How much audio was received, and how much of it is still held. */
  receivedBytes = 0;
  heldBytes = 0;
  readonly answer: Promise<CallResult>;
  /** Resolves when it is known whether the part was answered. */
  readonly opening: Promise<OutputSource | Failure>;
  private readonly cancellation = new Cancellation();
  private readonly unlisten: () => void;
  private source: OutputSource | null = null;
  private held: Uint8Array[] = [];
  private outcome: Failure | "whole" | null = null;
  private reading: Promise<void> | null = null;
  private isCurrent = false;

  constructor(
    call: Call,
    gateway: Gateway,
    private readonly options: SpeechPartOptions,
  ) {
    this.unlisten = call.cancellation.listen((reason) => this.cancellation.cancel(reason));
    this.answer = serve({ ...call, cancellation: this.cancellation, split: false }, gateway.collecting(this.records));
    this.opening = this.opened();
    // Errors are reported by `take`.
    this.opening.catch(() => {});
  }

  /** The upstream's answer was read to its end. */
  get isRead(): boolean {
    return this.outcome === "whole";
  }

  /** None of its audio was sent yet, so that the part can be spoken again. */
  get isUntouched(): boolean {
    return this.receivedBytes === this.heldBytes;
  }

  /** Reads until it is this part's turn. Returns the failure if there is one before that. */
  async readAhead(): Promise<Failure | null> {
    const { room } = this.options;
    while (!this.isCurrent && this.outcome === null) await (room.isFull ? room.changed() : this.read());
    return this.outcome === "whole" ? null : this.outcome;
  }

  /** The next audio, now that it is this part's turn; `null` after the last. */
  async take(): Promise<Uint8Array | Failure | null> {
    if (!this.isCurrent) {
      this.isCurrent = true;
      this.options.room.wake();
    }
    for (;;) {
      if (this.outcome !== null && this.outcome !== "whole") return this.outcome;
      const bytes = this.held.shift();
      if (bytes !== undefined) {
        this.heldBytes -= bytes.length;
        this.options.room.remove(bytes.length);
        return bytes;
      }
      if (this.outcome === "whole") return null;
      await this.read();
    }
  }

  cancel(reason: Failure): void {
    this.drop();
    if (this.outcome !== null) return;
    this.end(reason);
    this.cancellation.cancel(reason);
    this.source?.cancel(reason);
  }

  /** Reads are shared: there is one at a time. */
  private read(): Promise<void> {
    this.reading ??= this.readOnce().finally(() => (this.reading = null));
    return this.reading;
  }

  private async readOnce(): Promise<void> {
    const source = this.source ?? (await this.opening);
    if (isFailure(source)) return this.end(source);
    const bytes = await source.next();
    if (this.outcome !== null) return;
    if (bytes === null) return this.end("whole");
    if (isFailure(bytes)) return this.end(bytes);
    this.receivedBytes += bytes.length;
    this.heldBytes += bytes.length;
    this.options.room.add(bytes.length);
    this.held.push(bytes);
  }

  private async opened(): Promise<OutputSource | Failure> {
    const answer = await this.answer;
    if (answer.kind === "failed") {
      void answer.recorded(recordedStatus);
      return answer.failure;
    }
    if (answer.kind === "whole") return failure("bad_response", "a part came as a whole and not as a stream");
    this.source = answer.source;
    const rejected = this.rejectAnswer(answer.voice);
    if (rejected !== null) answer.source.cancel(rejected);
    return rejected ?? answer.source;
  }

  /** Why an answer cannot be used. */
  private rejectAnswer(voice: string | null): Failure | null {
    const expected = this.options.voice;
    if (expected !== undefined && voice !== expected) return failure("interrupted", "a part was spoken by another voice");
    return this.outcome === "whole" ? null : this.outcome;
  }

  private end(outcome: Failure | "whole"): void {
    if (this.outcome !== null) return;
    this.outcome = outcome;
    this.unlisten();
    this.options.room.wake();
  }

  private drop(): void {
    this.held = [];
    this.options.room.remove(this.heldBytes);
    this.heldBytes = 0;
  }
}

export interface SpeechPartOptions {
  readonly room: ReadAheadLimit;
  /** The voice of the first part, which the client was told; undefined for the first part itself. */
  readonly voice: string | null | undefined;
}

/** The status of a part is not shown to anybody. */
const recordedStatus = 200;
