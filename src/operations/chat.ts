import type { Member } from "./json.ts";
import type { TokenUsage } from "./usage.ts";

/**
 * A chat request as the client sent it: the bytes, and the few facts the gateway decides on. Everything else in the
 * body stays untouched and unread. Immutable; each attempt encodes its own copy from it.
 */
export interface ChatAsk {
  readonly operation: "chat";
  readonly body: Uint8Array;
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly Member[];
  readonly model: string;
  readonly stream: boolean;
  /** The client itself asked for the usage chunk; otherwise ours is hidden from it. */
  readonly wantsUsage: boolean;
  readonly maxTokens: number | null;
  readonly maxCompletionTokens: number | null;
  readonly choices: number;
  /** Tools that act at the upstream (web search, code interpreters): such a request is not repeated lightly. */
  readonly hostedTools: boolean;
  /** Plain text answers only: no tools, no schema, no log probabilities, no audio, one choice. */
  readonly plainText: boolean;
  /** Roughly how many tokens the prompt has: a routing hint, never a bill. */
  readonly promptTokensEstimate: number;
}

/**
 * What a chat stream consists of. `frame` is the event as it goes to the client, in the bytes it came in where the
 * upstream speaks the convention: we decode to look, never to re-encode. A stream that stops without `end` was cut.
 */
export type ChatEmission =
  | {
      readonly kind: "delta";
      readonly frame: Uint8Array;
      readonly output: Output | null;
      readonly text: string;
      readonly finishes: boolean;
    }
  | { readonly kind: "usage"; readonly frame: Uint8Array | null; readonly usage: TokenUsage }
  | { readonly kind: "skipped"; readonly detail: string }
  | { readonly kind: "end"; readonly frame: Uint8Array; readonly finish: string | null };

/** What kind of output a frame carries. The first one commits the answer to its channel. */
export type Output = "text" | "reasoning" | "tool_call" | "refusal" | "audio" | "finish";

/** A complete, unstreamed chat answer: the bytes for the client and what the gateway read in them. */
export interface ChatWhole {
  readonly kind: "whole";
  readonly body: Uint8Array;
  readonly usage: TokenUsage | null;
  readonly finish: string | null;
}
