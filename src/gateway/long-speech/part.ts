import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Call } from "../call.ts";
import { Cancellation } from "../cancellation.ts";
import type { Gateway } from "../gateway.ts";
import type { ReadAheadLimit } from "./read-ahead-limit.ts";
import type { CallRecord } from "../settlement/record.ts";
import type { CallResult, OutputSource } from "../call-result.ts";
import { serve } from "../serve.ts";

/**
 * One part of a long text, being spoken: a call of its own, that ends with the whole one. Before its turn it is read
 * ahead as far as there is room; when its turn has come it is read as fast as the client takes it.
 */
export class SpeechPart {
  readonly records: CallRecord[] = [];
  /** Of the audio: how much came, and how much of it is still here. */
  receivedBytes = 0;
  heldBytes = 0;
  readonly answer: Promise<CallResult>;
  /** Whether it was answered is known. */
  readonly opening: Promise<OutputSource | Failure>;
  private readonly cancellation = new Cancellation();
  private readonly unlink: () => void;
  private source: OutputSource | null = null;
  private held: Uint8Array[] = [];
  private outcome: Failure | "whole" | null = null;
  private reading: Promise<void> | null = null;
  private due = false;

  constructor(
    call: Call,
    gateway: Gateway,
    private readonly options: SpeechPartOptions,
  ) {
    this.unlink = call.cancellation.listen((reason) => this.cancellation.cancel(reason));
    this.answer = serve({ ...call, cancellation: this.cancellation, split: false }, gateway.collecting(this.records));
    this.opening = this.opened();
    // Whoever takes it is told of it.
    this.opening.catch(() => {});
  }

  /** Its upstream has said all it had to say. */
  get isRead(): boolean {
    return this.outcome === "whole";
  }

  /** Nothing of it has left yet, so it could be spoken again. */
  get isUntouched(): boolean {
    return this.receivedBytes === this.heldBytes;
  }

  /** Reads until its turn comes, and says why if it fails before that. */
  async readAhead(): Promise<Failure | null> {
    const { room } = this.options;
    while (!this.due && this.outcome === null) await (room.isFull ? room.changed() : this.read());
    return this.outcome === "whole" ? null : this.outcome;
  }

  /** Its turn has come: the next of its audio, or `null` behind the last. */
  async take(): Promise<Uint8Array | Failure | null> {
    if (!this.due) {
      this.due = true;
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

  /** One read at a time, whoever wants it. */
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
    const wrong = this.wrong(answer.voice);
    if (wrong !== null) answer.source.cancel(wrong);
    return wrong ?? answer.source;
  }

  /** Why it is of no use, although there is an answer. */
  private wrong(voice: string | null): Failure | null {
    const expected = this.options.voice;
    if (expected !== undefined && voice !== expected) return failure("interrupted", "a part was spoken by another voice");
    return this.outcome === "whole" ? null : this.outcome;
  }

  private end(outcome: Failure | "whole"): void {
    if (this.outcome !== null) return;
    this.outcome = outcome;
    this.unlink();
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
  /** The voice that the client was told of; undefined for the first part, which decides it. */
  readonly voice: string | null | undefined;
}

/** Nobody sees the status of a part. */
const recordedStatus = 200;
