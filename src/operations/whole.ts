import type { Metered } from "./usage.ts";

/** A complete answer that is not streamed: the bytes for the client and what the gateway read in them. */
export interface Whole {
  readonly kind: "whole";
  readonly body: Uint8Array;
  /** The media type it goes out with. */
  readonly type: string;
  readonly usage: Metered | null;
  readonly finish: string | null;
}
