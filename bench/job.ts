import type { Asked } from "./ask.ts";

/** What the orchestrator tells a load client to do, and what the client tells it back: one JSON value each way. */
export interface Job {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly asked: Asked;
  readonly work: Work;
  /** A file with a list of tokens: each request carries the next of them. */
  readonly tokensFile?: string;
}

export type Work =
  /** So many connections, each sending its next request as soon as it has its answer, and at least one. */
  | { readonly kind: "closed"; readonly connections: number; readonly seconds: number }
  /** Requests leave by the clock, whether or not earlier ones were answered. */
  | { readonly kind: "open"; readonly perSecond: number; readonly seconds: number }
  /** Streams that are read as they come; says "steady" once all are open, then counts for the given time. */
  | { readonly kind: "paced"; readonly streams: number; readonly seconds: number }
  /** Streams that are held until told to leave; when stalled, nothing is read after the first token. */
  | { readonly kind: "hold"; readonly streams: number; readonly stalled: boolean };

export interface ClosedResult {
  readonly requests: number;
  readonly failures: number;
  readonly seconds: number;
}

export interface OpenResult {
  readonly requests: number;
  readonly statuses: Readonly<Record<string, number>>;
  /** From the request's departure to the end of its answer. */
  readonly wholeMs: readonly number[];
  /** From the request's departure to the first byte of the answer's body. */
  readonly firstMs: readonly number[];
  readonly gapsMs: readonly number[];
  /** The attempts the gateway says it made, beside each of `wholeMs`; zero where the target does not say. */
  readonly attempts: readonly number[];
  readonly sentByTenth: Readonly<Record<number, number>>;
}

export interface PacedResult {
  readonly chunks: number;
  readonly seconds: number;
  readonly dropped: number;
  readonly gapP50Ms: number;
  readonly gapP99Ms: number;
}

export interface Held {
  readonly open: number;
  readonly failed: number;
  readonly seconds: number;
}

export interface Left {
  readonly dropped: number;
}
