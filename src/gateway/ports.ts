import type { UpstreamRequest } from "../adapters/adapter.ts";
import type { Channel } from "../channels/channel.ts";
import type { Failure } from "../operations/failure.ts";

/** Everything a call needs from outside: the network, the clock and the dice. Tests bring their own. */
export interface Ports {
  readonly send: Send;
  /** Milliseconds on a clock that never jumps. */
  readonly nowMs: () => number;
  /** Uniform in [0, 1). */
  readonly dice: () => number;
  /** Calls back once after a while; the returned function cancels. */
  readonly after: (ms: number, then: () => void) => () => void;
}

/** Sends one request. Never throws: a refusal to connect, a reset or an abort is a failure like any other. */
export type Send = (request: UpstreamRequest, by: { readonly channel: Channel; readonly credential: string }) => Exchange;

/** A request on its way. */
export interface Exchange {
  readonly reply: Promise<Reply | Failure>;
  /** Gives up: the connection is closed at once, in whatever phase it is. */
  abort(): void;
}

/** The head of an answer, with its body still to be read. Whoever holds one must read it to its end or cancel it. */
export interface Reply {
  readonly kind: "reply";
  readonly status: number;
  header(name: string): string | null;
  /** The whole body, decoded; a failure when it breaks off or is larger than allowed. Says when a part of it arrived. */
  bytes(bytesMax: number, arrived?: () => void): Promise<Uint8Array | Failure>;
  /** The body as it comes, decoded. `null` is its clean end. */
  next(): Promise<Uint8Array | null | Failure>;
  cancel(): void;
}
