import type { StreamPlace } from "../operations/conversation/surface.ts";
import type { Failure } from "../operations/failure.ts";
import type { Persisted } from "./settlement/record.ts";

/** The result of a call, as the HTTP edge writes it. */
export type CallResult = CallResultFacts &
  (
    | { readonly kind: "whole"; readonly body: Uint8Array; readonly type: string }
    | { readonly kind: "stream"; readonly source: OutputSource; readonly type: string; readonly shape: "events" | "bytes" }
    /** `recorded` is called with the status that the client saw. */
    | {
        readonly kind: "failed";
        readonly failure: Failure;
        readonly retryAfterMs: number | null;
        readonly recorded: (status: number) => Persisted;
      }
  );

/** Output that is sent to the client as it arrives: bytes, the failure that interrupted them, or `null` at the end. */
export interface OutputSource {
  next(): Promise<Uint8Array | Failure | null>;
  /** The client is gone, or is being cut off. */
  cancel(reason: Failure): void;
  /**
   * How many of its bytes have not been sent. If the answer is cut off, or the client is gone, they never will be. Set by whoever reads
   * the source and sends what it gives.
   */
  unsentBytes: (() => number) | null;
  /** How far it has been read; absent where that makes no difference to an error. */
  readonly place?: StreamPlace | null;
}

interface CallResultFacts {
  readonly channel: string | null;
  readonly attempts: number;
  readonly clampedTo: number | null;
  readonly voice: string | null;
  /** Fields of the request that were not sent to the upstream. */
  readonly dropped?: readonly string[];
}
