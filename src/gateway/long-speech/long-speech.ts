import { audioShape, transcodingFailure } from "../../dialects/readers/audio-track.ts";
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
 * Speaks a text that is too long for one request, in parts that are joined. Until the first audio arrives it can fail like any
 * call. After that the client gets all of it, or sees that it broke off.
 */
export async function serveLongSpeech(call: Call, gateway: Gateway): Promise<CallResult> {
  const { ask } = call;
  if (ask.operation !== "speech") throw new Error(`a long text cannot be spoken by a call for ${ask.operation}`);
  const tooMuch = tooMuchToRepeat(ask);
  if (tooMuch !== null) return failedAnswer(tooMuch, (status) => record(call, gateway, [], endOf(tooMuch, status)));

  const encoderPromise = encoderFor(ask.format, gateway.ports.tools);
  const queue = new SpeechQueue(call, ask, gateway);
  const first = await queue.begin();
  const recorded = (cause: Failure) => (status: number) => record(call, gateway, queue.records, endOf(cause, status));
  if (first.kind === "failed") {
    void encoderPromise.then((encoder) => (isFailure(encoder) ? undefined : encoder.transcoder?.destroy()));
    await queue.settled();
    return { ...first, recorded: recorded(first.failure) };
  }
  const encoder = await encoderPromise;
  if (isFailure(encoder)) {
    queue.cancel(encoder);
    await queue.settled();
    return failedAnswer(encoder, recorded(encoder));
  }
  const stream = streamOf(call, gateway, queue, { encoder: encoder.transcoder, events: ask.events });
  const { channel, attempts, clampedTo, voice, dropped = [] } = first;
  return { kind: "stream", source: stream, ...shapeOf(ask), channel, attempts, clampedTo, voice, dropped };
}

function streamOf(
  call: Call,
  gateway: Gateway,
  queue: SpeechQueue,
  output: { readonly encoder: Transcoder | null; readonly events: boolean },
): LongSpeechStream {
  const firstContentMs = gateway.ports.nowMs() - call.facts.startedMs;
  const stream = new LongSpeechStream(queue, output, (cause, bytesOut) => {
    unlisten();
    const outcome = endOf(cause, 200);
    const result: CallEnd = { ...outcome, state: outcome.state === "failed" ? "interrupted" : outcome.state, bytesOut, firstContentMs };
    // Parts that are still being spoken are cancelled at once, and recorded when they have ended.
    if (cause === null) return record(call, gateway, queue.records, result);
    return queue.settled().then(async () => {
      await record(call, gateway, queue.records, result);
    });
  });
  // If the client leaves before its stream is read, nobody else would cancel it.
  let unlisten = (): void => {};
  unlisten = call.cancellation.listen((reason) => {
    if (reason.kind === "client_gone") stream.cancel(reason);
  });
  return stream;
}

interface Encoder {
  /** `null` if the parts need no encoding. */
  readonly transcoder: Transcoder | null;
}

async function encoderFor(format: AudioFormat, tools: ReaderTools): Promise<Encoder | Failure> {
  if (format === "pcm") return { transcoder: null };
  try {
    const transcoder = await tools.transcoder("pcm", format);
    return transcoder === null ? withoutCodecs(format) : { transcoder };
  } catch (error) {
    return transcodingFailure(error, "internal", "the audio cannot be encoded");
  }
}

function withoutCodecs(format: AudioFormat): Failure {
  const message = `A long 'input' is spoken in parts, and this gateway has no codecs to encode them as '${format}'. Use 'pcm'.`;
  return failure("misconfigured", `the codecs to make ${format} are not installed`, { scope: "request", message });
}

function shapeOf({ format, events, characters }: SpeechRequest): ReturnType<typeof audioShape> {
  return audioShape({ asked: "pcm", wanted: format, events, characters });
}

interface CallEnd extends Pick<CallRecord, "status" | "state" | "failure" | "firstContentMs" | "bytesOut"> {}

function endOf(cause: Failure | null, status: number): CallEnd {
  const state = cause === null ? "complete" : cause.kind === "client_gone" ? "abandoned" : "failed";
  return { status, state, failure: cause, firstContentMs: null, bytesOut: 0 };
}

function record({ facts, ask }: Call, gateway: Gateway, parts: readonly CallRecord[], end: CallEnd): Persisted {
  const endedMs = gateway.ports.nowMs();
  const finish = end.state === "complete" ? "stop" : null;
  return gateway.record(longRecord(facts, parts, { ...end, endedMs, finish, characters: (ask as SpeechRequest).characters }));
}

function failedAnswer(cause: Failure, recorded: (status: number) => Persisted): CallResult {
  return { kind: "failed", failure: cause, retryAfterMs: null, recorded, channel: null, attempts: 0, clampedTo: null, voice: null };
}
