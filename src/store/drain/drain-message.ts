import type { OpenOptions } from "../open.ts";

/** What the drain's thread is started with. */
export interface DrainThreadOptions {
  readonly folder: string;
  readonly slotFolder: string;
  readonly firstSegment: number;
  readonly database: OpenOptions;
  readonly adoptMs: number;
}

export type ToDrain =
  /** Answer when everything up to this place is in the store. */
  | { readonly kind: "ask"; readonly ask: number; readonly segment: number; readonly position: number }
  /** There is something new in the journal. */
  | { readonly kind: "more" }
  | { readonly kind: "stop" };

export type FromDrain =
  | { readonly kind: "state"; readonly trouble: string | null; readonly behindBytes: number; readonly receipts: number }
  /** Everything up to this place is in the store, and nothing is done until there is more. */
  | { readonly kind: "resting"; readonly segment: number; readonly position: number }
  | { readonly kind: "report"; readonly message: string }
  | { readonly kind: "done"; readonly ask: number }
  | { readonly kind: "stopped" };
