import type { Address, Channel } from "../channels/channel.ts";
import type { MakeTranscoder } from "../media/audio.ts";
import type { CallRequest } from "../operations/call-request.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import type { OptionalField } from "../operations/conversation/optional-fields.ts";
import type { TextSeal } from "../operations/conversation/sealed-parts.ts";
import type { Emission, WholeAnswer } from "../operations/emission.ts";
import type { Failure } from "../operations/failure.ts";
import type { Operation, PassthroughOperation } from "../operations/operation.ts";
import type { PassthroughRequest } from "../operations/passthrough/passthrough-request.ts";
import type { SpeechRequest } from "../operations/speech/speech-request.ts";
import type { TranscriptionRequest } from "../operations/transcription/transcription-request.ts";

/** How a request to an upstream is written and its answer is read. It is pure; `send` does the I/O. A dialect may lack operations. */
export interface Dialect extends Readonly<Partial<Record<PassthroughOperation, Codec<PassthroughRequest>>>> {
  readonly name: string;
  readonly chat?: Codec<ChatRequest>;
  readonly transcription?: Codec<TranscriptionRequest>;
  readonly speech?: Codec<SpeechRequest>;
  readonly models?: ModelsCodec;
  readonly tokenCount?: TokenCountCodec;
  /** How a channel is addressed that names this dialect and no provider; absent: as in the OpenAI API. */
  readonly defaults?: DialectDefaults;
}

export interface DialectDefaults extends Partial<Pick<Address, "chatPath" | "modelsPath" | "authHeader" | "authPrefix">> {
  /** Client headers that such a channel understands, in lower case. */
  readonly forwardHeaders?: readonly string[];
}

/** Writes a request in the dialect of its target. A channel whose dialect lacks the operation is never chosen. */
export function encode(dialect: Dialect | undefined, request: CallRequest, target: Target): EncodedRequest | Failure {
  switch (request.operation) {
    case "chat":
      return codecOf(dialect, "chat").encode(request, target);
    case "transcription":
      return codecOf(dialect, "transcription").encode(request, target);
    case "speech":
      return codecOf(dialect, "speech").encode(request, target);
    default:
      return codecOf<PassthroughOperation>(dialect, request.operation).encode(request, target);
  }
}

export function codecOf<O extends Operation>(dialect: Dialect | undefined, operation: O): NonNullable<Dialect[O]> {
  const codec = dialect?.[operation];
  if (codec === undefined) throw new Error(`the dialect ${dialect?.name ?? "(none)"} of the chosen channel has no ${operation}`);
  return codec;
}

export interface Codec<A> {
  /** The request for one target, or why this target cannot serve it. */
  encode(ask: A, target: Target): EncodedRequest | Failure;
  readonly explain: (response: ErrorResponse) => Failure;
}

export interface Target {
  readonly channel: Channel;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The most output tokens to ask for: configured, or learned from a refusal. */
  readonly ceiling: number | null;
  /** Ask for usage in a stream even if the client did not. */
  readonly meterStream: boolean;
  /** False if it answered an earlier request for `srt` or `vtt` with something else, without times. */
  readonly subtitles?: boolean;
  /** It refused the reasoning of earlier turns in this call: the request is written without it. */
  readonly withoutReasoning?: boolean;
  /** What it refused of translated requests, and what these do without; null, or absent: nothing. */
  readonly refusedFields?: readonly OptionalField[] | null;
  /** It refused beta features that clients name: so many fewer are named; null, or absent: all. */
  readonly betas?: FewerBetas | null;
  /** The client's headers that are forwarded to this channel. */
  readonly forwarded: Readonly<Record<string, string>>;
  /** What the gateway sealed for clients to carry is opened with it, for the target that made it: see `openerFor`. Null: nothing is. */
  readonly seal?: TextSeal | null;
  /** The client's key, which a sealed value belongs to. */
  readonly keyId?: string;
}

/** Those that are known to be taken where not all are, or none. */
export type FewerBetas = "known" | "none";

export interface UpstreamRequest {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | StreamedBody | null;
}

/** A body that is not in memory: it is read when it is sent, and again for another attempt. */
export interface StreamedBody {
  readonly length: number;
  /** The bytes from the beginning, in parts. Each part belongs to the caller, who frees it after sending. Throws on a read error. */
  parts(): AsyncIterable<Uint8Array>;
}

export interface EncodedRequest {
  readonly request: UpstreamRequest;
  /** The client speaks another API than the upstream: the answer is read as parts, and the client's surface writes them. */
  readonly translated?: boolean;
  /** A tool that runs at the upstream is asked for in another API than the client's. Where both speak the same, the request tells. */
  readonly hostedTools?: boolean;
  /** How the answer to this request is read. */
  readonly answer: ExpectedAnswer;
  /** The number of tokens that replaced the client's; null if none did. */
  readonly clampedTo: number | null;
  /** The voice that replaced the client's; null if none did. */
  readonly voice: string | null;
  /** The fields of the request that the dialect does not support. */
  readonly dropped?: readonly string[];
  /** Explains an error response, where that depends on the request; absent: as the codec does. */
  readonly explain?: (response: ErrorResponse) => Failure;
  /** It asks for `srt` or `vtt`, which could also be made of another format. */
  readonly subtitles?: boolean;
  /** How many fewer beta features it could name; null, or absent: it names none, or all of them have to be. */
  readonly fewerBetas?: FewerBetas | null;
}

export type ExpectedAnswer = ExpectedWhole | ExpectedStream | ExpectedSteps;

export interface ExpectedWhole {
  readonly kind: "whole";
  /** Reads the body of a successful response. */
  readonly read: (body: Uint8Array, head: UpstreamHead) => WholeAnswer | Failure;
}

/** The answer takes several requests, one after the other, such as to a job that is created and then asked whether it is done. */
export interface ExpectedSteps {
  readonly kind: "steps";
  /** Reads the body of a successful response: the whole answer, or the request that comes next. */
  readonly read: (body: Uint8Array, head: UpstreamHead) => WholeAnswer | NextStep | Failure;
  /** What comes next if this request failed; null, or absent: the attempt has failed. */
  readonly retry?: (cause: Failure) => NextStep | null;
}

/** A further request of the same attempt. */
export interface NextStep {
  readonly kind: "next";
  readonly request: UpstreamRequest;
  /** How long to wait before it is sent. */
  readonly afterMs: number;
  readonly answer: ExpectedSteps;
}

export interface ExpectedStream {
  readonly kind: "stream";
  /** Makes a reader for the body of a successful response. */
  reader(head: UpstreamHead, tools: ReaderTools): StreamReader | Failure | Promise<StreamReader | Failure>;
  /** Reads JSON that was sent instead of a stream: an error with status 200, or an answer that is not streamed. */
  instead(body: Uint8Array, head: UpstreamHead): WholeAnswer | Failure;
  /** The upstream answers in JSON by design: `reader` reads that as well, and `instead` is not asked. */
  readonly isJson?: true;
}

export interface UpstreamHead {
  readonly status: number;
  readonly header: (name: string) => string | null;
}

/** What a reader may need from outside. */
export interface ReaderTools {
  readonly transcoder: MakeTranscoder;
}

/** Reads one stream. It is stateful, and does no I/O. */
export interface StreamReader {
  /** The media type of the frames. */
  readonly type: string;
  /** How a failure after the first output is reported: `events` in-band, `bytes` only by closing the connection. */
  readonly shape: "events" | "bytes";
  /** The emissions of the next bytes, in order. A failure is an error that the upstream sent in-band, or an unreadable stream. */
  push(chunk: Uint8Array): Emissions | Promise<Emissions>;
  /** The body has ended: the missing end event, or a failure if the stream is incomplete. */
  close(): Emissions | Promise<Emissions>;
  /** The declared length of the body, if it may be read as a whole before the first byte is relayed. */
  readonly declaredBytes?: number | null;
  /** There is more output of the bytes so far than was returned at once: pushing an empty chunk returns the next part. */
  readonly hasMore?: boolean;
  /** The output is complete: only usage and an end mark may follow. */
  readonly finished: boolean;
  /** A failure that came in the same push as good emissions, which were returned first. */
  readonly pending: Failure | null;
  /** No more will be read. */
  destroy(): void;
}

export type Emissions = readonly Emission[] | Failure;

/** Reads the events of a stream one by one; `EventReader` makes a reader of it. */
export interface EventDecoder {
  /** The emissions of one event, in order. A failure is an error that the upstream sent in-band. */
  read(event: SseEvent): Emissions;
  /** The body has ended: the missing end event, or a failure if the stream is incomplete. */
  close(): Emissions;
  readonly finished: boolean;
  /** The events that arrived together have been read. */
  batchRead?(): void;
  /** The clients of this API need the `event:` line of each event: its frame begins with it. */
  readonly keepsNames?: boolean;
}

/** One server-sent event: its payload, and its canonical frame (`data: …` and a blank line, after `event: …` where that is kept). */
export interface SseEvent {
  /** The `event:` field, or an empty string. */
  readonly name: string;
  readonly data: string;
  readonly frame: Uint8Array;
}

/** A response with an error status. Its body is read up to a limit. */
export interface ErrorResponse {
  readonly status: number;
  readonly header: (name: string) => string | null;
  readonly body: string;
}

/** How an upstream is asked how many tokens a prompt has. It is made of the request that would ask for the answer. */
export interface TokenCountCodec {
  /** Null where it cannot be made of that request. */
  request(chat: UpstreamRequest, target: Target): UpstreamRequest | null;
  read(body: string): number | null;
}

export interface ModelsCodec {
  path(address: Address): string | null;
  /** Headers that the list needs beside those of the channel. */
  readonly headers?: Readonly<Record<string, string>>;
  read(body: string): readonly string[] | null;
  /** What has to be added to the path for the next page of a list that is not complete; null after the last one. */
  next?(body: string): string | null;
}
