import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { HeardPart } from "../../operations/transcription/merge/merged-transcript.ts";
import { partTranscript } from "../../operations/transcription/merge/part.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import { partHeaders, type Call } from "../call.ts";
import { Cancellation } from "../cancellation.ts";
import type { Gateway } from "../gateway.ts";
import { partAsk, type PartPlan } from "./plan.ts";
import type { AudioSplit, AudioPart, SplitFailure } from "../ports.ts";
import { serve } from "../serve.ts";
import type { CallRecord } from "../settlement/record.ts";

/** The failure of a part, which ends the call. */
export interface PartFailure {
  readonly kind: "failed";
  readonly failure: Failure;
  readonly retryAfterMs: number | null;
}

/** A transcribed part. */
export interface TranscribedPart extends HeardPart {
  readonly kind: "transcribed";
}

/**
 * Serves the parts of a recording like calls of their own, a few at a time, and returns their transcripts in order. The first failure
 * cancels the other parts, and so does the cancellation of the call.
 */
export class Parts {
  /** The records of all started parts; complete when all have ended. */
  readonly records: CallRecord[] = [];
  /** The fields that the channels of the parts so far could not take. */
  readonly dropped = new Set<string>();
  private readonly cancellation = new Cancellation();
  private readonly results: Promise<TranscribedPart | PartFailure | null>[] = [];
  private readonly running = new Set<Promise<unknown>>();
  private readonly finished: Promise<void>;
  private resolveLast: (result: TranscribedPart | PartFailure | null | Promise<TranscribedPart | PartFailure>) => void = () => {};
  private failed: PartFailure | null = null;
  private total: number | null = null;
  private started = 0;
  private returned = 0;

  constructor(
    private readonly call: Call,
    private readonly ask: TranscriptionRequest,
    private readonly plan: PartPlan,
    private readonly split: AudioSplit,
    private readonly gateway: Gateway,
  ) {
    this.addResult();
    const unlisten = call.cancellation.listen((reason) => this.fail({ kind: "failed", failure: reason, retryAfterMs: null }));
    this.finished = this.run().finally(unlisten);
  }

  /** The next transcript in order, null after the last, or the failure. */
  async next(): Promise<TranscribedPart | PartFailure | null> {
    const result = await this.results[this.returned]!;
    this.returned += 1;
    return this.failed ?? result;
  }

  /** Resolves when no part is running any more. */
  async ended(): Promise<void> {
    await this.finished;
    await Promise.all(this.running);
  }

  /** Cancels all running parts. */
  stop(cause: Failure): void {
    this.fail({ kind: "failed", failure: cause, retryAfterMs: null });
  }

  private async run(): Promise<void> {
    for (;;) {
      while (this.running.size >= concurrentMax) await Promise.race(this.running);
      if (this.failed !== null) return this.resolveLast(this.failed);
      const part = await this.split.next();
      if (this.failed !== null) {
        if (part?.kind === "part") part.dispose();
        return this.resolveLast(this.failed);
      }
      if (part === null) {
        this.total = this.started;
        return this.resolveLast(null);
      }
      if (part.kind !== "part") {
        this.fail({ kind: "failed", failure: part.kind === "failed" ? part.failure : this.absent(part), retryAfterMs: null });
        return this.resolveLast(this.failed);
      }
      this.begin(part);
    }
  }

  private begin(part: AudioPart): void {
    this.started += 1;
    const serving = this.serve(part, this.started).finally(() => part.dispose());
    const ended: Promise<unknown> = serving
      // An exception is a bug; `next` reports it to the caller.
      .catch(() => this.stop(failure("internal", "a part could not be served")))
      .finally(() => this.running.delete(ended));
    this.running.add(ended);
    this.resolveLast(serving);
    this.addResult();
  }

  private addResult(): void {
    const result = new Promise<TranscribedPart | PartFailure | null>((resolve) => (this.resolveLast = resolve));
    // Nobody may be waiting for it.
    result.catch(() => {});
    this.results.push(result);
  }

  private async serve(part: AudioPart, index: number): Promise<TranscribedPart | PartFailure> {
    const { call, ask, plan, gateway } = this;
    const startedMs = gateway.ports.nowMs();
    const partCall: Call = {
      ...call,
      // Each part has the deadline of a call of its own.
      facts: { ...call.facts, stream: false, bytesIn: part.file.content.length, startedMs, waitedMs: 0 },
      ask: partAsk(ask, part, plan.format),
      route: plan.route,
      split: false,
      headers: partHeaders(call, index),
      cancellation: this.cancellation,
    };
    const answer = await serve(partCall, gateway.collecting(this.records));
    if (answer.kind === "stream") throw new Error("a part was answered with a stream, which was not asked for");
    if (answer.kind === "failed") {
      void answer.recorded(answer.failure.status ?? 0);
      return this.fail(answer);
    }
    for (const name of answer.dropped ?? []) this.dropped.add(name);
    const transcript = partTranscript(answer.body);
    if (isFailure(transcript)) return this.fail({ kind: "failed", failure: transcript, retryAfterMs: null });
    const { start, end, overlap, goesOn } = part;
    const ms = Math.round(gateway.ports.nowMs() - startedMs);
    gateway.ports.progress?.({ id: call.facts.id, part: index, of: this.total, seconds: end - start, channel: answer.channel, ms });
    return { kind: "transcribed", start, end, overlap, goesOn, transcript };
  }

  /** Keeps the first failure. The other parts are cancelled for a reason that does not blame their channels. */
  private fail({ failure: cause, retryAfterMs }: PartFailure): PartFailure {
    if (this.failed === null) {
      this.failed = { kind: "failed", failure: cause, retryAfterMs };
      this.cancellation.cancel(this.call.cancellation.failure ?? otherFailed);
      this.split.stop();
    }
    return this.failed;
  }

  private absent({ missing }: SplitFailure & { readonly kind: "absent" }): Failure {
    return tooLongFor(this.call, `it cannot be cut into parts, because ${missing} is not installed`);
  }
}

/** The error that an upload of this size gets without splitting. */
export function tooLongFor({ ask, route, snapshot }: Call, why: string): Failure {
  const bytes = ask.operation === "transcription" ? ask.file.content.length : 0;
  const { audioBytesMax } = snapshot.service;
  const limits = route.tiers.flat().map(({ deployment }) => deployment.channel.capabilities.audioBytesMax ?? audioBytesMax);
  const limit = Math.min(audioBytesMax, Math.max(...limits));
  return failure("invalid_request", `a recording could not be cut: ${why}`, {
    message:
      bytes > limit
        ? `Maximum content size limit (${limit}) exceeded (${bytes} bytes read); ${why}.`
        : `The recording is too long for one request; ${why}.`,
    status: 413,
    type: "server_error",
  });
}

const concurrentMax = 4;
const otherFailed = failure("deadline", "another part of the recording failed");
