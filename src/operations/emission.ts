import type { DeltaRun } from "./chat/delta-run.ts";
import type { MeteredUsage } from "./usage.ts";

/**
 * What a stream consists of, whatever the operation. `frame` is what goes to the client, in the bytes it came in where
 * the upstream speaks the OpenAI API: we decode to look, never to re-encode. A stream that stops without `end` was cut.
 */
export type Emission =
  | {
      readonly kind: "delta";
      readonly frame: Uint8Array;
      readonly output: Output | null;
      readonly text: string;
      /** What was made besides what is said: thoughts, a refusal, the arguments of a tool. */
      readonly unsaid?: string;
      readonly finishes: boolean;
    }
  | DeltaRun
  | { readonly kind: "usage"; readonly frame: Uint8Array | null; readonly usage: MeteredUsage }
  | { readonly kind: "skipped"; readonly detail: string }
  | { readonly kind: "end"; readonly frame: Uint8Array; readonly finish: string | null };

/** What kind of output a frame carries. The first one commits the answer to its channel. */
export type Output = "text" | "reasoning" | "tool_call" | "refusal" | "audio" | "finish";

/** A complete answer that is not streamed: the bytes for the client and what the gateway read in them. */
export interface WholeAnswer {
  readonly kind: "whole";
  readonly body: Uint8Array;
  /** The media type it goes out with. */
  readonly type: string;
  readonly usage: MeteredUsage | null;
  readonly finish: string | null;
}
