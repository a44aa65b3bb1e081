import type { ReaderTools, UpstreamRequest } from "../dialects/dialect.ts";
import type { Channel } from "../channels/channel.ts";
import type { ItemMemory } from "../operations/conversation/kept-items.ts";
import type { TextSeal } from "../operations/conversation/sealed-parts.ts";
import type { Failure } from "../operations/failure.ts";
import type { FormFile, StoredFile } from "../media/stored-file.ts";

/** What a call needs from outside: the network, the clock and randomness. Tests provide their own. */
export interface Ports {
  readonly send: Send;
  /** Milliseconds on a monotonic clock. */
  readonly nowMs: () => number;
  /** Uniform in [0, 1). */
  readonly dice: () => number;
  /** Calls back once after `ms`. The returned function cancels that. */
  readonly after: (ms: number, then: () => void) => () => void;
  readonly timers: TimerQueue;
  /** Removes a channel's secrets from a text, in any encoding they may have there. */
  readonly redact?: (channel: Channel, text: string) => string;
  /** Writes the commands in a text, such as `sluice models list`, as the operator types them. Without it, they stay as they are. */
  readonly asTyped?: (text: string) => string;
  /** ReaderTools that readers of answers may need. */
  readonly tools: ReaderTools;
  /** Seals what clients carry for upstreams. Without it, they carry what they can read themselves. */
  readonly seal?: TextSeal;
  /** Keeps items of answers that clients may refer to. Without it, none are kept. */
  readonly items?: ItemMemory;
  /** Cuts long recordings. Without it, or if this installation lacks the codecs, no recording is cut. */
  readonly splitAudio?: SplitAudio;
  /** Called for each finished part of a long call. It gets no content. */
  readonly progress?: (fields: PartProgress) => void;
}

/** Something that fires once, at the time it was last set to. */
export interface Timer {
  fire(): void;
  /** Belongs to the timer queue. */
  slot: number;
}

/** Like `after`, but without an allocation: every call uses it. */
export interface TimerQueue {
  /** `nowMs` saves reading the clock where the caller knows the time. */
  set(timer: Timer, ms: number, nowMs?: number): void;
  clear(timer: Timer): void;
}

/** How one part of a long call went. */
export interface PartProgress {
  readonly id: string;
  /** From 1. */
  readonly part: number;
  /** The number of parts; null while it is not known. */
  readonly of: number | null;
  readonly seconds: number;
  readonly channel: string | null;
  readonly ms: number;
}

/** Decodes a recording and cuts it at silences into parts of at most `secondsMax`. */
export type SplitAudio = (recording: StoredFile, secondsMax: number) => AudioSplit;

/** A recording that is being cut, no faster than its parts are taken. */
export interface AudioSplit {
  /** The next part, or null after the last one. The caller awaits one part before it asks for the next. */
  next(): Promise<AudioPart | SplitFailure | null>;
  /** Stops cutting at once. Parts that were returned stay until they are disposed of. */
  stop(): void;
}

export interface AudioPart {
  readonly kind: "part";
  /** Seconds from the beginning of the recording. */
  readonly start: number;
  readonly end: number;
  /** How many seconds the part before contains as well, because there was no silence to cut at. */
  readonly overlap: number;
  /** The next part overlaps with this one. */
  readonly goesOn: boolean;
  readonly file: FormFile;
  dispose(): void;
}

/** Why no more parts come. `absent`: the codecs are not installed; otherwise the failure ends the call. */
export type SplitFailure = { readonly kind: "absent"; readonly missing: string } | { readonly kind: "failed"; readonly failure: Failure };

/** Sends one request. It never throws: a refused connection, a reset or an abort is a failure like any other. */
export type Send = (request: UpstreamRequest, channel: Channel, credential: string, trace?: TraceHeaders | null) => Exchange;

/**
 * The headers of a trace, which are others for each request. They are not among the request's own headers, because most requests of a
 * channel share those, and what was prepared for them.
 */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate: string | null;
}

/** A request to an upstream. */
export interface Exchange {
  readonly reply: Promise<Reply | Failure>;
  /** Whether nothing of it was sent: it waits for a connection, a token or an engine, or was aborted while it did. Absent: it may have been. */
  readonly isUnsent?: boolean;
  /** Closes the connection at once, in any phase. */
  abort(): void;
}

/** The head of an answer. Its holder must read the body to the end or cancel it. */
export interface Reply {
  readonly kind: "reply";
  readonly status: number;
  header(name: string): string | null;
  /** The headers have been read: a long stream must not hold them in memory. */
  dropHeaders?(): void;
  /** The whole decoded body, or a failure if it breaks off or is too large. Reports progress when a part arrives. */
  bytes(bytesMax: number, progress?: { bytesArrived(): void }): Uint8Array | Failure | Promise<Uint8Array | Failure>;
  /** The next decoded part of the body if it has arrived already; null: `next` has to be awaited. */
  ready?(): Uint8Array | null;
  /** The next decoded part of the body. `null`: a clean end. */
  next(): Promise<Uint8Array | null | Failure>;
  cancel(): void;
}
