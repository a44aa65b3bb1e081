import type { MeteredUsage } from "../usage.ts";
import type { Part, ProviderValue } from "./conversation.ts";

/** A complete answer, whatever API it came in. */
export interface ChatAnswer {
  /** The upstream's id of the answer, or null. */
  readonly id: string | null;
  /** The model that served, as the upstream names it. */
  readonly model: string | null;
  readonly createdSeconds: number | null;
  readonly parts: readonly Part[];
  readonly finish: Finish;
  readonly usage: MeteredUsage | null;
  /** The pages that its texts are made of, where the upstream looked them up. */
  readonly sources?: readonly CitedPage[];
}

/** A page of the web, and the characters of the answer's text, all texts taken together, that are made of it. */
export interface CitedPage {
  readonly url: string;
  readonly title: string;
  readonly start: number;
  readonly end: number;
}

export interface Finish {
  readonly reason: FinishReason;
  /** The stop sequence that ended the answer, where the upstream says which. */
  readonly stopSequence: string | null;
}

export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter";

/**
 * What a stream says, a piece at a time. The pieces of one text or reasoning follow one another; those of several tool calls may
 * interleave, also with a text, and say by `index` which one they belong to.
 */
export type StreamPart =
  | {
      readonly kind: "start";
      readonly id: string | null;
      readonly model: string | null;
      readonly createdSeconds: number | null;
      /** The client has the beginning of the answer, as an upstream that speaks its API wrote it: these are its values. */
      readonly resumes?: true;
    }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "refusal"; readonly text: string }
  | { readonly kind: "reasoning"; readonly text: string; readonly summary?: boolean }
  /** Closes the reasoning so far. `redacted`: it stands alone, and the reasoning is not shown. */
  | { readonly kind: "reasoning_signature"; readonly signature: ProviderValue; readonly redacted: boolean }
  | { readonly kind: "text_signature"; readonly signature: ProviderValue }
  | {
      readonly kind: "tool_call";
      readonly index: number;
      /** Empty where the upstream gave none: the client needs one to answer to, and the surface makes it. */
      readonly id: string;
      readonly name: string;
      /** The namespace that the tool was declared in, and whether it takes free text: `tool_arguments` are that text then. */
      readonly namespace?: string;
      readonly custom?: boolean;
      /** It looks up more tools (OpenAI Responses: `tool_search_call`). */
      readonly search?: true;
      readonly signature?: ProviderValue;
    }
  | { readonly kind: "tool_arguments"; readonly index: number; readonly text: string }
  | { readonly kind: "citations"; readonly citations: ProviderValue }
  /** A block that no other API has, and that the client has got: a writer that goes on with its answer counts it. */
  | { readonly kind: "passed_block" }
  /** The pages that the text so far is made of; each is told once. */
  | { readonly kind: "sources"; readonly sources: readonly CitedPage[] }
  | { readonly kind: "usage"; readonly usage: MeteredUsage }
  | { readonly kind: "finish"; readonly finish: Finish };
