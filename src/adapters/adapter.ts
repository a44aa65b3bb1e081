import type { Address, Channel } from "../channels/channel.ts";
import type { ChatAsk, ChatEmission, ChatWhole } from "../operations/chat.ts";
import type { Failure } from "../operations/failure.ts";

/**
 * A dialect: how to ask an upstream and how to read its answer. Everything here is pure; one `send` elsewhere does
 * the talking. An adapter has the operations it has.
 */
export interface Adapter {
  readonly name: string;
  readonly chat?: ChatCodec;
  readonly models?: ModelsCodec;
}

export interface Target {
  readonly channel: Channel;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The most output tokens to ask for: configured, or learned from a refusal. */
  readonly ceiling: number | null;
  /** Ask for usage in a stream even if the client did not. */
  readonly meterStream: boolean;
  /** The client's headers that may travel on to this channel. */
  readonly forwarded: Readonly<Record<string, string>>;
}

export interface UpstreamRequest {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
}

export interface EncodedChat {
  readonly request: UpstreamRequest;
  /** The value that was put in place of the client's, or null when nothing was clamped. */
  readonly clampedTo: number | null;
  /** Usage was asked for on our own account, so its chunk must not reach the client. */
  readonly hidesUsage: boolean;
}

export interface ChatCodec {
  encode(ask: ChatAsk, target: Target): EncodedChat;
  /** Reads one stream. Stateful by nature, but it sees bytes only. */
  decoder(options: { readonly hidesUsage: boolean; readonly choices: number }): ChatDecoder;
  /** Reads an answer that is not streamed. */
  whole(body: Uint8Array): ChatWhole | Failure;
  explain(refusal: Refusal): Failure;
}

export interface ChatDecoder {
  /** The emissions of one event, in order. A failure is an error the upstream sent in-band. */
  read(event: SseEvent): readonly ChatEmission[] | Failure;
  /** What the end of the body means: the missing end event, or a failure because the stream was cut. */
  close(): readonly ChatEmission[] | Failure;
  /** Every choice has its finish_reason: only usage and the end mark may follow. */
  readonly finished: boolean;
}

/** One server-sent event: its payload, and the same as one canonical frame (`data: …` and a blank line). */
export interface SseEvent {
  /** The `event:` field, or an empty string. */
  readonly name: string;
  readonly data: string;
  readonly frame: Uint8Array;
}

/** An answer with a status that is not success, read to its end (bounded). */
export interface Refusal {
  readonly status: number;
  readonly header: (name: string) => string | null;
  readonly body: string;
}

export interface ModelsCodec {
  path(address: Address): string | null;
  read(body: string): readonly string[] | null;
}
