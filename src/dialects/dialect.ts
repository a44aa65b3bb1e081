import type { Address, Channel } from "../channels/channel.ts";
import type { MakeTranscoder } from "../media/audio.ts";
import type { CallRequest } from "../operations/call-request.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import type { Emission, Output, WholeAnswer } from "../operations/emission.ts";
import type { Failure } from "../operations/failure.ts";
import type { Operation } from "../operations/operation.ts";
import type { SpeechRequest } from "../operations/speech/speech-request.ts";
import type { TranscriptionRequest } from "../operations/transcription/transcription-request.ts";

/**
 * A dialect: how to ask an upstream and how to read its answer. Everything here is pure; one `send` elsewhere does
 * the talking. A dialect may lack operations.
 */
export interface Dialect {
  readonly name: string;
  readonly chat?: Codec<ChatRequest>;
  readonly transcription?: Codec<TranscriptionRequest>;
  readonly speech?: Codec<SpeechRequest>;
  readonly models?: ModelsCodec;
}

/** The request in the dialect of its target. A channel whose dialect lacks the operation is never chosen. */
export function encode(dialect: Dialect | undefined, request: CallRequest, target: Target): EncodedRequest | Failure {
  switch (request.operation) {
    case "chat":
      return codecOf(dialect, "chat").encode(request, target);
    case "transcription":
      return codecOf(dialect, "transcription").encode(request, target);
    case "speech":
      return codecOf(dialect, "speech").encode(request, target);
  }
}

export function codecOf<O extends Operation>(dialect: Dialect | undefined, operation: O): NonNullable<Dialect[O]> {
  const codec = dialect?.[operation];
  if (codec === undefined) throw new Error(`a channel was chosen whose dialect has no ${operation}: ${dialect?.name ?? "unknown"}`);
  return codec;
}

export interface Codec<A> {
  /** The request for one target, or why this target cannot be asked for it. */
  encode(ask: A, target: Target): EncodedRequest | Failure;
  explain(refusal: ErrorResponse): Failure;
}

export interface Target {
  readonly channel: Channel;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The most output tokens to ask for: configured, or learned from a refusal. */
  readonly ceiling: number | null;
  /** Ask for usage in a stream even if the client did not. */
  readonly meterStream: boolean;
  /** False: it was asked for `srt` or `vtt` before and gave something else, without times. */
  readonly subtitles?: boolean;
  /** The client's headers that may travel on to this channel. */
  readonly forwarded: Readonly<Record<string, string>>;
}

export interface UpstreamRequest {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | StreamedBody | null;
}

/** A body that is not held in memory: read when it is sent, and once more if it has to be sent again. */
export interface StreamedBody {
  readonly length: number;
  /**
   * The bytes from the beginning, in parts of a size that is good to send. Each part is the reader's own, to be freed once
   * it was sent. It throws when they cannot be read.
   */
  parts(): AsyncIterable<Uint8Array>;
}

export interface EncodedRequest {
  readonly request: UpstreamRequest;
  /** How the answer to this very request is read. */
  readonly answer: ExpectedAnswer;
  /** The number of tokens that was put in place of the client's, or null when nothing was clamped. */
  readonly clampedTo: number | null;
  /** The voice that was put in place of the client's, or null when none was. */
  readonly voice: string | null;
  /** The fields of the request that the dialect could not carry. */
  readonly dropped?: readonly string[];
  /** It asks for `srt` or `vtt`, which could also be made of another format. */
  readonly subtitles?: boolean;
}

export type ExpectedAnswer = ExpectedWhole | ExpectedStream;

export interface ExpectedWhole {
  readonly kind: "whole";
  /** Reads a body that came with a status of success. */
  readonly read: (body: Uint8Array, head: UpstreamHead) => WholeAnswer | Failure;
}

export interface ExpectedStream {
  readonly kind: "stream";
  /** Begins to read a body that came with a status of success. */
  reader(head: UpstreamHead, tools: ReaderTools): StreamReader | Failure | Promise<StreamReader | Failure>;
  /** Reads JSON that came where a stream was asked for: an error in disguise, or the whole answer after all. */
  instead(body: Uint8Array, head: UpstreamHead): WholeAnswer | Failure;
}

export interface UpstreamHead {
  readonly status: number;
  readonly header: (name: string) => string | null;
}

/** What a reader may need of the world. */
export interface ReaderTools {
  readonly transcoder: MakeTranscoder;
}

/** Reads one stream. Stateful by nature, but it sees bytes only. */
export interface StreamReader {
  /** The media type of what it gives. */
  readonly type: string;
  /** What a failure after the first output looks like: `events` are told in-band, of `bytes` only a broken connection tells. */
  readonly shape: "events" | "bytes";
  /** The emissions of the next bytes, in order. A failure is an error the upstream sent in-band, or nonsense. */
  push(chunk: Uint8Array): Emissions | Promise<Emissions>;
  /** What the end of the body means: the missing end, or a failure because the stream was cut. */
  close(): Emissions | Promise<Emissions>;
  /** How long the body says it is, where that is worth knowing: it is complete somewhere, and can be read whole before any of it leaves. */
  readonly declaredBytes?: number | null;
  /** What it was given holds more than was good to give at once: pushing nothing gives the next of it, before the body is read on. */
  readonly hasMore?: boolean;
  /** Everything that counts has been said: only usage and an end mark may follow. */
  readonly finished: boolean;
  /** A failure that came in one push with good emissions: they were given, and it comes next. */
  readonly pending: Failure | null;
  /** It will not be read on. */
  destroy(): void;
}

export type Emissions = readonly Emission[] | Failure;

/** Reads the events of a stream one by one; `EventReader` makes a reader of it. */
export interface EventDecoder {
  /** The emissions of one event, in order. A failure is an error the upstream sent in-band. */
  read(event: SseEvent): Emissions;
  /** What the end of the body means: the missing end event, or a failure because the stream was cut. */
  close(): Emissions;
  readonly finished: boolean;
  /** What the next events will probably look like: those that do are not read. Null where that is not known. */
  readonly familiar?: FamiliarDelta | null;
}

/** An event that says nothing new but its words. */
export interface FamiliarDelta {
  readonly output: Output;
  /** The words are said; otherwise they are only thought. */
  readonly said: boolean;
  /** Where the frame ends that begins here and is one of these; 0 where none does. */
  end(bytes: Uint8Array, start: number): number;
  /** Where the words of that frame lie. */
  readonly from: number;
  readonly to: number;
}

/** One server-sent event: its payload, and the same as one canonical frame (`data: …` and a blank line). */
export interface SseEvent {
  /** The `event:` field, or an empty string. */
  readonly name: string;
  readonly data: string;
  readonly frame: Uint8Array;
}

/** An answer with a status that is not success, read to its end (bounded). */
export interface ErrorResponse {
  readonly status: number;
  readonly header: (name: string) => string | null;
  readonly body: string;
}

export interface ModelsCodec {
  path(address: Address): string | null;
  read(body: string): readonly string[] | null;
}
