import type { Route } from "../channels/channel.ts";
import type { Key } from "../keys/key.ts";
import type { AnswerFormat } from "../operations/conversation/surface.ts";
import type { CallRequest } from "../operations/call-request.ts";
import type { Operation } from "../operations/operation.ts";
import type { Admission } from "./admission/limiter.ts";
import type { Cancellation } from "./cancellation.ts";
import type { Snapshot } from "./snapshot.ts";
import type { TraceContext } from "./trace.ts";

/** One admitted request. It keeps the snapshot that was current when it began. */
export interface Call {
  readonly facts: Readonly<CallFacts>;
  readonly key: Key;
  readonly ask: CallRequest;
  /** The candidates for the model. */
  readonly route: Route;
  /** The request is too long for one upstream request: it is cut, served in parts and joined. */
  readonly split: boolean;
  readonly snapshot: Snapshot;
  /** The headers of the client's request. */
  readonly headers: { header(name: string): string | null };
  readonly cancellation: Cancellation;
  /** Writes the answer of an upstream that speaks another API than the client; null: every upstream speaks the API of the client. */
  readonly surface: AnswerFormat | null;
}

/**
 * What is kept of a call until its end, filled in as the call proceeds. It is small: a long stream must not hold its request body.
 */
export interface CallFacts {
  readonly id: string;
  /** `null` until the client is authenticated. */
  readonly keyId: string | null;
  readonly operation: Operation;
  /** `null` until the request is read. */
  model: string | null;
  stream: boolean;
  bytesIn: number;
  readonly startedMs: number;
  /** How long it waited, outside of its attempts, for what is not the gateway's own work: for its body, or in vain for another attempt. */
  waitedMs: number;
  /** Where the call belongs in a trace; absent if calls are not traced. */
  readonly trace?: TraceContext | undefined;
  /** What was reserved for the call; null until it is admitted. */
  admission: Admission | null;
}

/** The client's headers for one part of a long call. Each part gets an idempotency key of its own, or it would be taken for a repetition. */
export function partHeaders({ headers }: Call, index: number): Call["headers"] {
  return {
    header: (name) => {
      const value = headers.header(name);
      return value !== null && name.toLowerCase() === "idempotency-key" ? `${value}-${index}` : value;
    },
  };
}
