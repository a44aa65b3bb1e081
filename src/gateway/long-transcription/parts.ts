import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { HeardPart } from "../../operations/transcription/merge/merged-transcript.ts";
import { partTranscript } from "../../operations/transcription/merge/part.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import { partHeaders, type Call } from "../call.ts";
import { Cancellation } from "../cancellation.ts";
import type { Gateway } from "../gateway.ts";
import { partAsk, type PartPlan } from "./plan.ts";
import type { AudioCutting, AudioPart, CutTrouble } from "../ports.ts";
import { serve } from "../serve.ts";
import type { CallRecord } from "../settlement/record.ts";

/** Why a part, and with it the call, failed. */
export interface PartFailure {
  readonly kind: "failed";
  readonly failure: Failure;
  readonly retryAfterMs: number | null;
}

/** A part that was heard. */
export interface PartHeard extends HeardPart {
  readonly kind: "heard";
}

/**
 * The parts of a recording, each served like a call of its own, a few at a time, and given in their order. The first that fails
 * ends the others, as does whatever ends the call.
 */
export class Parts {
  /** One line for each part that was begun, once all have ended. */
  readonly records: CallRecord[] = [];
  private readonly cancellation = new Cancellation();
  private readonly results: Promise<PartHeard | PartFailure | null>[] = [];
  private readonly running = new Set<Promise<unknown>>();
  private readonly pumping: Promise<void>;
  private tail: (result: PartHeard | PartFailure | null | Promise<PartHeard | PartFailure>) => void = () => {};
  private failed: PartFailure | null = null;
  private total: number | null = null;
  private begun = 0;
  private given = 0;

  constructor(
    private readonly call: Call,
    private readonly ask: TranscriptionRequest,
    private readonly plan: PartPlan,
    private readonly cutting: AudioCutting,
    private readonly gateway: Gateway,
  ) {
    this.lengthen();
    const unlisten = call.cancellation.listen((reason) => this.fail({ kind: "failed", failure: reason, retryAfterMs: null }));
    this.pumping = this.pump().finally(unlisten);
  }

  /** The next part in the order of the recording, null after the last, or why there is none. */
  async next(): Promise<PartHeard | PartFailure | null> {
    const result = await this.results[this.given]!;
    this.given += 1;
    return this.failed ?? result;
  }

  /** Resolves when nothing is under way any more. */
  async ended(): Promise<void> {
    await this.pumping;
    await Promise.all(this.running);
  }

  /** Gives up whatever is under way. */
  stop(cause: Failure): void {
    this.fail({ kind: "failed", failure: cause, retryAfterMs: null });
  }

  private async pump(): Promise<void> {
    for (;;) {
      while (this.running.size >= atOnceMax) await Promise.race(this.running);
      if (this.failed !== null) return this.tail(this.failed);
      const part = await this.cutting.next();
      if (this.failed !== null) {
        if (part?.kind === "part") part.dispose();
        return this.tail(this.failed);
      }
      if (part === null) {
        this.total = this.begun;
        return this.tail(null);
      }
      if (part.kind !== "part") {
        this.fail({ kind: "failed", failure: part.kind === "failed" ? part.failure : this.absent(part), retryAfterMs: null });
        return this.tail(this.failed);
      }
      this.begin(part);
    }
  }

  private begin(part: AudioPart): void {
    this.begun += 1;
    const serving = this.serve(part, this.begun).finally(() => part.dispose());
    const ended: Promise<unknown> = serving
      // A bug, which whoever waits for this part is told of.
      .catch(() => this.stop(failure("internal", "a part could not be served")))
      .finally(() => this.running.delete(ended));
    this.running.add(ended);
    this.tail(serving);
    this.lengthen();
  }

  private lengthen(): void {
    const result = new Promise<PartHeard | PartFailure | null>((resolve) => (this.tail = resolve));
    // Nobody may wait for it any more.
    result.catch(() => {});
    this.results.push(result);
  }

  private async serve(part: AudioPart, index: number): Promise<PartHeard | PartFailure> {
    const { call, ask, plan, gateway } = this;
    const startedMs = gateway.ports.nowMs();
    const partCall: Call = {
      ...call,
      // Each has the time that a call has.
      facts: { ...call.facts, stream: false, bytesIn: part.file.content.length, startedMs },
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
    const transcript = partTranscript(answer.body);
    if (isFailure(transcript)) return this.fail({ kind: "failed", failure: transcript, retryAfterMs: null });
    const { start, end, overlap, goesOn } = part;
    const ms = Math.round(gateway.ports.nowMs() - startedMs);
    gateway.ports.progress?.({ id: call.facts.id, part: index, of: this.total, seconds: end - start, channel: answer.channel, ms });
    return { kind: "heard", start, end, overlap, goesOn, transcript };
  }

  /** The first reason stands. The other parts had no part in it, and whoever serves them is not to blame. */
  private fail({ failure: cause, retryAfterMs }: PartFailure): PartFailure {
    if (this.failed === null) {
      this.failed = { kind: "failed", failure: cause, retryAfterMs };
      this.cancellation.cancel(this.call.cancellation.failure ?? otherFailed);
      this.cutting.stop();
    }
    return this.failed;
  }

  private absent({ missing }: CutTrouble & { readonly kind: "absent" }): Failure {
    return uncut(this.call, `it cannot be cut into parts, because ${missing} is not installed`);
  }
}

/** What a file that is too large would have been told, had there been no thought of cutting it. */
export function uncut({ ask, route, snapshot }: Call, why: string): Failure {
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

const atOnceMax = 4;
const otherFailed = failure("deadline", "another part of the recording failed");
