import type { Tools, UpstreamRequest } from "../dialects/dialect.ts";
import type { Channel } from "../channels/channel.ts";
import type { Failure } from "../operations/failure.ts";
import type { FormFile, StoredFile } from "../media/stored-file.ts";

/** Everything a call needs from outside: the network, the clock and the dice. Tests bring their own. */
export interface Ports {
  readonly send: Send;
  /** Milliseconds on a clock that never jumps. */
  readonly nowMs: () => number;
  /** Uniform in [0, 1). */
  readonly dice: () => number;
  /** Calls back once after a while; the returned function cancels. */
  readonly after: (ms: number, then: () => void) => () => void;
  readonly timers: TimerQueue;
  /** Takes a channel's secrets out of a text, in whatever form they stand there. */
  readonly redact?: (channel: Channel, text: string) => string;
  /** What readers of answers may need. */
  readonly tools: Tools;
  /** Cuts long recordings. Where this installation cannot, it says so; without it, nothing is cut. */
  readonly cutAudio?: CutAudio;
  /** Is told of each part of a long call that is done. No content. */
  readonly progress?: (fields: PartProgress) => void;
}

/** Something that waits for its time: one time, the last it was set to. */
export interface Timer {
  fire(): void;
  /** For whoever keeps it. */
  slot: number;
}

/** The same as `after`, for what every call has: it costs a call no memory. */
export interface TimerQueue {
  /** `nowMs`: for whoever knows it already. */
  set(timer: Timer, ms: number, nowMs?: number): void;
  clear(timer: Timer): void;
}

/** How a part of a long call went. */
export interface PartProgress {
  readonly id: string;
  /** From 1. */
  readonly part: number;
  /** How many there are; null while that is not known. */
  readonly of: number | null;
  readonly seconds: number;
  readonly channel: string | null;
  readonly ms: number;
}

/** Decodes a recording and cuts it where it is quiet, into parts that are not longer than asked for. */
export type CutAudio = (recording: StoredFile, secondsMax: number) => AudioCutting;

/** A recording that is being cut, no faster than its parts are taken. */
export interface AudioCutting {
  /** The next part, or null after the last one. Not to be called again before it has resolved. */
  next(): Promise<AudioPart | CutTrouble | null>;
  /** Ends it at once, in whatever state. What was given stays until it is disposed of. */
  stop(): void;
}

export interface AudioPart {
  readonly kind: "part";
  /** Seconds from the beginning of the recording. */
  readonly start: number;
  readonly end: number;
  /** How much of it the part before holds too: there was no silence to cut at. */
  readonly overlap: number;
  /** The part after it overlaps with it. */
  readonly goesOn: boolean;
  readonly file: FormFile;
  dispose(): void;
}

/** Why there are no more parts. Except for `absent`, the failure is the call's. */
export type CutTrouble = { readonly kind: "absent"; readonly missing: string } | { readonly kind: "failed"; readonly failure: Failure };

/** Sends one request. Never throws: a refusal to connect, a reset or an abort is a failure like any other. */
export type Send = (request: UpstreamRequest, channel: Channel, credential: string) => Exchange;

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
  bytes(bytesMax: number, progress?: { bytesArrived(): void }): Uint8Array | Failure | Promise<Uint8Array | Failure>;
  /** The next part of the body, decoded, where it has come already; null where `next` knows more. */
  ready?(): Uint8Array | null;
  /** The body as it comes, decoded. `null` is its clean end. */
  next(): Promise<Uint8Array | null | Failure>;
  cancel(): void;
}
