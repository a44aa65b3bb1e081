import { audioShape } from "../../dialects/readers/audio-track.ts";
import type { ReaderTools } from "../../dialects/dialect.ts";
import type { AudioFormat, Transcoder } from "../../media/audio.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { tooMuchToRepeat } from "../../operations/speech/speech-part.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { Call } from "../call.ts";
import type { Gateway } from "../gateway.ts";
import { SpeechQueue } from "./queue.ts";
import { longRecord } from "./record.ts";
import { LongSpeechStream } from "./stream.ts";
import type { CallRecord, Persisted } from "../settlement/record.ts";
import type { CallResult } from "../call-result.ts";

/**
 * Speaks a text that is too long for one request: in parts, put together. Until the first part sounds it can fail like
 * any call; from then on it is whole or visibly broken.
 */
export async function serveLongSpeech(call: Call, gateway: Gateway): Promise<CallResult> {
  const { ask } = call;
  if (ask.operation !== "speech") throw new Error(`a long text cannot be spoken by a call for ${ask.operation}`);
  const tooMuch = tooMuchToRepeat(ask);
  if (tooMuch !== null) return failedAnswer(tooMuch, (status) => record(call, gateway, [], ended(tooMuch, status)));

  const making = encoderFor(ask.format, gateway.ports.tools);
  const queue = new SpeechQueue(call, ask, gateway);
  const first = await queue.begin();
  const recorded = (cause: Failure) => (status: number) => record(call, gateway, queue.records, ended(cause, status));
  if (first.kind === "failed") {
    void making.then((encoder) => (isFailure(encoder) ? undefined : encoder.transcoder?.destroy()));
    await queue.settled();
    return { ...first, recorded: recorded(first.failure) };
  }
  const encoder = await making;
  if (isFailure(encoder)) {
    queue.cancel(encoder);
    await queue.settled();
    return failedAnswer(encoder, recorded(encoder));
  }
  const stream = streamOf(call, gateway, queue, { encoder: encoder.transcoder, events: ask.events });
  const { channel, attempts, clampedTo, voice } = first;
  return { kind: "stream", source: stream, ...shapeOf(ask), channel, attempts, clampedTo, voice };
}

function streamOf(
  call: Call,
  gateway: Gateway,
  queue: SpeechQueue,
  look: { readonly encoder: Transcoder | null; readonly events: boolean },
): LongSpeechStream {
  const firstContentMs = gateway.ports.nowMs() - call.facts.startedMs;
  const stream = new LongSpeechStream(queue, look, (cause, bytesOut) => {
    unlisten();
    const outcome = ended(cause, 200);
    const how: Ended = { ...outcome, state: outcome.state === "failed" ? "interrupted" : outcome.state, bytesOut, firstContentMs };
    // What was still being spoken ends at once, and is recorded when it has.
    if (cause === null) return record(call, gateway, queue.records, how);
    return queue.settled().then(async () => {
      await record(call, gateway, queue.records, how);
    });
  });
  // A client that leaves before anyone reads its stream would otherwise leave it open.
  let unlisten = (): void => {};
  unlisten = call.cancellation.listen((reason) => {
    if (reason.kind === "client_gone") stream.cancel(reason);
  });
  return stream;
}

interface Encoder {
  /** `null` where none is needed. */
  readonly transcoder: Transcoder | null;
}

async function encoderFor(format: AudioFormat, tools: ReaderTools): Promise<Encoder | Failure> {
  if (format === "pcm") return { transcoder: null };
  try {
    const transcoder = await tools.transcoder("pcm", format);
    return transcoder === null ? withoutCodecs(format) : { transcoder };
  } catch (error) {
    return failure("internal", `the audio cannot be encoded: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function withoutCodecs(format: AudioFormat): Failure {
  const message = `A long 'input' is put together from parts, and this gateway has no codecs to make '${format}' of them. Use 'pcm'.`;
  return failure("misconfigured", `the codecs to make ${format} are not installed`, { scope: "request", message });
}

function shapeOf({ format, events, characters }: SpeechRequest): ReturnType<typeof audioShape> {
  return audioShape({ asked: "pcm", wanted: format, events, characters });
}

interface Ended extends Pick<CallRecord, "status" | "state" | "failure" | "firstContentMs" | "bytesOut"> {}

function ended(cause: Failure | null, status: number): Ended {
  const state = cause === null ? "complete" : cause.kind === "client_gone" ? "abandoned" : "failed";
  return { status, state, failure: cause, firstContentMs: null, bytesOut: 0 };
}

function record({ facts, ask }: Call, gateway: Gateway, parts: readonly CallRecord[], how: Ended): Persisted {
  const endedMs = gateway.ports.nowMs();
  const finish = how.state === "complete" ? "stop" : null;
  return gateway.record(longRecord(facts, parts, { ...how, endedMs, finish, characters: (ask as SpeechRequest).characters }));
}

function failedAnswer(cause: Failure, recorded: (status: number) => Persisted): CallResult {
  return { kind: "failed", failure: cause, retryAfterMs: null, recorded, channel: null, attempts: 0, clampedTo: null, voice: null };
}
