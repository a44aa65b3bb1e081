import type { ChatRequest } from "../chat/chat-request.ts";
import type { Failure } from "../failure.ts";
import type { JsonObject } from "../json.ts";
import type { ChatAnswer, StreamPart } from "./answer-parts.ts";
import type { Part, SurfaceName } from "./conversation.ts";
import type { FoundItems, KeptItem } from "./kept-items.ts";

/**
 * What a client speaks: how its requests are read and its answers are written. Everything here is pure; ids and the time are values
 * that it is given. One folder for each; none knows a dialect.
 */
export interface Surface extends AnswerFormat {
  /** A header that every request of its clients has. It tells them apart where they share a path with those of another API. */
  readonly versionHeader?: string;
  /** Reads the facts that the gateway decides on, and what the client can fix if the request is wrong. */
  parse(body: Uint8Array): ChatRequest | Failure;
  /** How requests refer to items of earlier answers; absent where they cannot. */
  readonly references?: ItemReferences;
}

/** Requests that name items of earlier answers instead of repeating them. */
export interface ItemReferences {
  /** The ids that a request names, in their order, with repetitions. */
  idsIn(request: ChatRequest): readonly string[];
  /** The body with the items in place of the references to them. References to others stay. */
  resolved(request: ChatRequest, items: FoundItems): Uint8Array;
}

/** How an API writes answers. An API whose requests are more than their bodies has its own way to read them. */
export interface AnswerFormat extends ErrorFormat {
  readonly name: SurfaceName;
  /** The fields of a request that its answer repeats; absent where it repeats none. */
  echo?(request: ChatRequest): Readonly<Record<string, unknown>>;
  /** Whether the client may refer to the items of this answer later; absent: never. */
  mayKeep?(request: ChatRequest): boolean;
  /** The body of a complete answer. */
  whole(answer: ChatAnswer, context: AnswerContext): Uint8Array;
  writer(context: AnswerContext): AnswerWriter;
}

/** How an API reports errors and keeps a stream alive. */
export interface ErrorFormat {
  /** The header that names a response to its clients, beside `x-request-id`; absent where they read that one. */
  readonly requestIdHeader?: string;
  /** The media type of its streams; absent where they are server-sent events. */
  readonly streamType?: string;
  error(failure: SurfaceFailure, requestId: string): Uint8Array;
  /** The status of an error where this API has another one for it than the gateway; absent where they are the same. */
  status?(failure: SurfaceFailure): number;
  /** The error inside a stream whose status has been sent. Nothing follows it. `place`: after which event it comes, where that is known. */
  errorEvent(failure: SurfaceFailure, requestId: string, place?: StreamPlace | null): Uint8Array;
  /** Sent in silence, so that neither the client nor a proxy gives up. */
  readonly keepAlive: Uint8Array;
  /** The same before the first event, where that has to be a certain one; absent where it makes no difference. */
  readonly earlyKeepAlive?: Uint8Array;
}

/** How far a client has read a stream, in an API that numbers its events. */
export interface StreamPlace {
  /** The id of the answer, as the client knows it. */
  readonly id: string;
  /** The number of the last event. */
  readonly sequence: number;
  /** How a writer can go on from here with what another channel says; null where it cannot. */
  readonly resume?: ResumePoint | null;
}

/** What a client has of an answer that consists of items, and that is passed to it as it comes. */
export interface ResumePoint {
  /** The items that are complete. */
  readonly items: readonly JsonObject[];
  /** The message whose text is being written, which is the next item; null between two items. */
  readonly message: { readonly id: string } | null;
}

/** What an answer says beyond what the upstream said. */
export interface AnswerContext {
  readonly request: AnsweredRequest;
  /** The random part of ids that we make, unique to the call. */
  readonly idSeed: string;
  readonly nowSeconds: number;
  /**
   * Seals what only its provider understands, for a client to carry (see `docs/decisions/reasoning.md`). The text begins with
   * `sealedPrefix`; it is empty where there is nothing to seal, or too much. Null: nothing can be sealed.
   */
  readonly seal: ((part: Part) => string) | null;
  /** Takes the items of a complete answer for later requests, and says whether they will be kept; absent: nothing is kept. */
  readonly keep?: (items: readonly KeptItem[]) => boolean;
}

/** What is needed of a request until its answer is written. Not its body: a long stream must not hold it. */
export type AnsweredRequest = Pick<ChatRequest, "model" | "promptTokensEstimate" | "maxCompletionTokens"> & {
  /** The fields of the request that the answer repeats. */
  readonly echo: Readonly<Record<string, unknown>>;
};

/** Writes the frames of a stream in the framing of the surface. One for each call: another channel may continue the answer. */
export interface AnswerWriter {
  readonly type: string;
  /** What was written last; absent where events have no numbers. */
  readonly place?: StreamPlace | null;
  /** Goes on with an answer that was not written here so far. `text`: what there is of the message that is being written. */
  resume?(place: StreamPlace, text: string): void;
  /** The frames of the next parts, in order; empty where they say nothing that the client sees yet. */
  write(parts: readonly StreamPart[]): Uint8Array;
  /** The frames that end a stream that was complete. */
  end(): Uint8Array;
}

/** An error as the gateway classifies it; each surface has its own names for that. */
export interface SurfaceFailure {
  readonly status: number;
  readonly type: string;
  readonly code: string | null;
  readonly param: string | null;
  readonly message: string;
}
