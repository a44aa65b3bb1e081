import { formatUnsupported, renderedTranscript } from "../../dialects/transcripts/rendered-transcript.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { listIn } from "../../operations/transcription/form-lists.ts";
import { MergedTranscript, type HeardPart } from "../../operations/transcription/merge/merged-transcript.ts";
import { lastFrames, segmentFrames, deltaFrame, eventsType } from "../../operations/transcription/transcript-events.ts";
import { summedUsage } from "../../operations/transcription/merge/usage.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Call } from "../call.ts";
import type { Gateway } from "../gateway.ts";
import { Parts, tooLongFor, type PartFailure } from "./parts.ts";
import { knownSpeakers, planParts } from "./plan.ts";
import type { CallRecord, Persisted } from "../settlement/record.ts";
import { joined, sentOf } from "../attempt/relay.ts";
import type { CallResult, OutputSource } from "../call-result.ts";

/** Transcribes a recording that is too long for one request, in parts that are joined. */
export function serveLongTranscription(call: Call, gateway: Gateway): Promise<CallResult> {
  if (call.ask.operation !== "transcription") throw new Error(`a ${call.ask.operation} was to be transcribed`);
  return new LongTranscription(call, call.ask, gateway).run();
}

class LongTranscription {
  private readonly merged: MergedTranscript;
  private parts: Parts | null = null;
  private segmentsSent = 0;
  private recorded = false;

  constructor(
    private readonly call: Call,
    private readonly ask: TranscriptionRequest,
    private readonly gateway: Gateway,
  ) {
    this.merged = new MergedTranscript(knownSpeakers(ask));
  }

  async run(): Promise<CallResult> {
    const { call, ask, gateway } = this;
    const plan = planParts(call, ask);
    if (plan === null) return this.failed(tooLongFor(call, "no channel takes parts of a sensible length"), null);
    const split = gateway.ports.splitAudio?.(ask.file.content, plan.secondsMax);
    if (split === undefined) return this.failed(tooLongFor(call, "this gateway cannot cut it into parts"), null);
    const parts = new Parts(call, ask, plan, split, gateway);
    this.parts = parts;
    return ask.stream ? this.stream(parts) : this.whole(parts);
  }

  private async whole(parts: Parts): Promise<CallResult> {
    for (;;) {
      const part = await parts.next();
      if (part?.kind === "failed") return this.failedPart(part);
      if (part === null) break;
      this.merged.add(part);
    }
    await parts.ended();
    const answer = renderedTranscript(this.merged.whole(), this.ask);
    if (isFailure(answer)) return this.failed(answer, null);
    const tookMs = this.gateway.ports.nowMs() - this.call.facts.startedMs;
    await this.record({ status: 200, state: "complete", failure: null, firstContentMs: tookMs, bytesOut: answer.body.length });
    return { kind: "whole", body: answer.body, type: answer.type, ...this.facts() };
  }

  /** The head is sent with the first part: until then a failure can have a status of its own. */
  private async stream(parts: Parts): Promise<CallResult> {
    const first = await parts.next();
    if (first?.kind === "failed") return this.failedPart(first);
    const frames = first === null ? null : this.framesOf(first);
    if (frames !== null && isFailure(frames)) {
      parts.stop(frames);
      return this.failedPart({ failure: frames, retryAfterMs: null });
    }
    const firstContentMs = this.gateway.ports.nowMs() - this.call.facts.startedMs;
    const source = new LongSource(parts, frames, {
      framesOf: (part) => this.framesOf(part),
      last: () => joined(lastFrames(this.merged.whole())),
      settled: (cause, bytesOut) => this.settle(cause, bytesOut, firstContentMs),
    });
    this.call.cancellation.listen((reason) => {
      if (reason.kind === "client_gone") source.cancel(reason);
    });
    return { kind: "stream", source, type: eventsType, shape: "events", ...this.facts() };
  }

  /** The frames for the text that is final after this part. */
  private framesOf(part: HeardPart): Uint8Array | Failure {
    const delta = this.merged.add(part);
    if (this.ask.format !== "diarized_json") return delta === "" ? nothing : deltaFrame(delta);
    const segments = this.merged.takeSegments();
    if (segments === null) return formatUnsupported(this.ask.format);
    const frames = joined(segmentFrames(segments, this.segmentsSent));
    this.segmentsSent += segments.length;
    return frames;
  }

  private settle(cause: Failure | null, bytesOut: number, firstContentMs: number): Persisted {
    const state = cause === null ? "complete" : cause.kind === "client_gone" ? "abandoned" : "interrupted";
    return this.record({ status: 200, state, failure: cause, firstContentMs, bytesOut });
  }

  private async failedPart({ failure: cause, retryAfterMs }: Omit<PartFailure, "kind">): Promise<CallResult> {
    await this.parts?.ended();
    return this.failed(cause, retryAfterMs);
  }

  private failed(cause: Failure, retryAfterMs: number | null): CallResult {
    const state = cause.kind === "client_gone" ? "abandoned" : "failed";
    return {
      kind: "failed",
      failure: cause,
      retryAfterMs,
      recorded: (status) => this.record({ status, state, failure: cause, firstContentMs: null, bytesOut: 0 }),
      ...this.facts(),
    };
  }

  /** The channels that answered the parts, in order. */
  private facts(): Pick<CallResult, "channel" | "attempts" | "clampedTo" | "voice" | "dropped"> {
    const attempts = this.attempts();
    const channels = new Set(attempts.filter(({ outcome }) => outcome === "answered").map(({ channel }) => channel));
    return {
      channel: channels.size === 0 ? null : [...channels].join(","),
      attempts: attempts.length,
      clampedTo: null,
      voice: null,
      dropped: this.dropped(),
    };
  }

  /** Log probabilities belong to the tokens of each part, and the joined text has none. */
  private dropped(): readonly string[] {
    const lost = new Set(this.parts?.dropped);
    if (listIn(this.ask.fields, "include").includes("logprobs")) lost.add("include");
    return [...lost];
  }

  private attempts(): CallRecord["attempts"] {
    return this.parts?.records.flatMap(({ attempts }) => attempts) ?? [];
  }

  private record(ending: Pick<CallRecord, "status" | "state" | "failure" | "firstContentMs" | "bytesOut">): Persisted {
    if (this.recorded) return null;
    this.recorded = true;
    const { call, gateway } = this;
    return gateway.record({
      ...call.facts,
      ...ending,
      attempts: this.attempts(),
      endedMs: gateway.ports.nowMs(),
      usage: summedUsage(this.parts?.records.map(({ usage }) => usage) ?? []),
      finish: null,
      chunks: 0,
      clampedTo: null,
      skippedEvents: 0,
      plan: null,
    });
  }
}

const nothing = new Uint8Array(0);

interface LongSourceOptions {
  /** The frames for the transcript of a part. */
  framesOf(part: HeardPart): Uint8Array | Failure;
  last(): Uint8Array;
  /** Called exactly once, when no part is running any more. */
  settled(cause: Failure | null, bytesOut: number): Persisted;
}

/** Sends the transcript of each part as soon as all parts before it are sent. */
class LongSource implements OutputSource {
  private bytesOut = 0;
  unsentBytes: (() => number) | null = null;
  private ended = false;

  constructor(
    private readonly parts: Parts,
    private first: Uint8Array | null,
    private readonly options: LongSourceOptions,
  ) {}

  async next(): Promise<Uint8Array | Failure | null> {
    const { first } = this;
    this.first = null;
    if (first !== null && first.length > 0) return this.sent(first);
    while (!this.ended) {
      const part = await this.parts.next();
      if (part === null) {
        const frames = this.sent(this.options.last());
        await this.end(null);
        return frames;
      }
      const frames = part.kind === "failed" ? part.failure : this.options.framesOf(part);
      if (isFailure(frames)) return this.end(frames);
      if (frames.length > 0) return this.sent(frames);
    }
    return null;
  }

  cancel(reason: Failure): void {
    this.parts.stop(reason);
    void this.end(reason);
  }

  private sent(frames: Uint8Array): Uint8Array {
    this.bytesOut += frames.length;
    return frames;
  }

  private async end(cause: Failure | null): Promise<Failure | null> {
    if (this.ended) return null;
    this.ended = true;
    const bytesOut = cause?.kind === "client_gone" ? sentOf(this.bytesOut, this) : this.bytesOut;
    if (cause !== null) this.parts.stop(cause);
    await this.parts.ended();
    await this.options.settled(cause, bytesOut);
    return cause;
  }
}
