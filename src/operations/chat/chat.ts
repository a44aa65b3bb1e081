import type { Member } from "../json.ts";

/**
 * A chat request as the client sent it: the bytes, and the few facts the gateway decides on. Everything else in the
 * body stays untouched and unread. Immutable; each attempt encodes its own copy from it.
 */
export interface ChatRequest {
  readonly operation: "chat";
  readonly body: Uint8Array;
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly Member[];
  readonly model: string;
  readonly stream: boolean;
  /** The client itself asked for the usage chunk; otherwise ours is hidden from it. */
  readonly wantsUsage: boolean;
  /** The larger of `max_tokens` and `n_predict`. */
  readonly maxTokens: number | null;
  readonly maxCompletionTokens: number | null;
  readonly choices: number;
  /** Tools that act at the upstream (web search, code interpreters): such a request is not repeated lightly. */
  readonly hostedTools: boolean;
  /** The model is asked to reason before it answers. */
  readonly reasons: boolean;
  /** Plain text answers only: no tools, no schema, no log probabilities, no audio, one choice. */
  readonly plainText: boolean;
  /** Roughly how many tokens the prompt has: a routing hint, never a bill. */
  readonly promptTokensEstimate: number;
}
