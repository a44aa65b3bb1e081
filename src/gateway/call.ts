import type { Route } from "../channels/channel.ts";
import type { Key } from "../keys/key.ts";
import type { CallRequest } from "../operations/call-request.ts";
import type { Operation } from "../operations/operation.ts";
import type { Admission } from "./admission/limiter.ts";
import type { Cancellation } from "./cancellation.ts";
import type { Snapshot } from "./snapshot.ts";

/** One admitted request on its way through the gateway. It keeps the snapshot it began with. */
export interface Call {
  readonly facts: CallFacts;
  readonly key: Key;
  readonly ask: CallRequest;
  /** The ways to serve the asked model. */
  readonly route: Route;
  /** What is asked is too long for one request: it is cut, served in parts and put together. */
  readonly split: boolean;
  readonly snapshot: Snapshot;
  /** Of the client's request. */
  readonly headers: { header(name: string): string | null };
  readonly cancellation: Cancellation;
}

/** What is remembered of a call until its end. Small on purpose: a long stream must not hold its request body. */
export interface CallFacts {
  readonly id: string;
  /** `null` until the caller is known. */
  readonly keyId: string | null;
  readonly operation: Operation;
  /** `null` until the request was read. */
  readonly model: string | null;
  readonly stream: boolean;
  readonly bytesIn: number;
  readonly startedMs: number;
  /** What was reserved for it; null until it was let in. */
  readonly admission: Admission | null;
}
