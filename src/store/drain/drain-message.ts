import type { OpenOptions } from "../open.ts";

/** The `workerData` of the drain's worker. */
export interface DrainThreadOptions {
  readonly folder: string;
  readonly slotFolder: string;
  readonly firstSegment: number;
  readonly database: OpenOptions;
  readonly adoptMs: number;
  readonly keptShare: number;
}

export type ToDrain =
  /** Reply with `done` when everything up to this position is in the store. */
  | { readonly kind: "idle"; readonly id: number; readonly segment: number; readonly position: number }
  /** New records were written to the journal. */
  | { readonly kind: "more" }
  /** A process has ended: reply with `done` when its receipts are in the store and nothing is held for it any more. */
  | { readonly kind: "release"; readonly id: number; readonly holder: string }
  | { readonly kind: "stop" };

export type FromDrain =
  | { readonly kind: "state"; readonly error: string | null; readonly behindBytes: number; readonly receipts: number }
  /** Everything up to this position is in the store. The worker sleeps until the next message. */
  | { readonly kind: "resting"; readonly segment: number; readonly position: number }
  | { readonly kind: "report"; readonly message: string }
  | { readonly kind: "done"; readonly id: number }
  | { readonly kind: "stopped" };
