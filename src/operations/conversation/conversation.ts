import type { JsonObject } from "../json.ts";

/** The APIs that clients speak for chats. */
export type SurfaceName = "openai-chat" | "anthropic-messages" | "openai-responses" | "gemini";

/**
 * What a chat request says, whatever API the client speaks and whatever API the upstream speaks. A surface parses a client's body
 * into it, and a dialect encodes it for an upstream; neither knows the other. Where both speak the same API, nothing is parsed: the
 * client's bytes are sent with a few values spliced in.
 */
export interface Conversation {
  readonly turns: readonly ConversationTurn[];
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice | null;
  /** False: at most one tool call in an answer. Null: the client does not say. */
  readonly parallelToolCalls: boolean | null;
  readonly outputFormat: OutputFormat | null;
  readonly sampling: Sampling;
  readonly reasoning: ReasoningRequest | null;
  readonly maxOutputTokens: number | null;
  readonly stop: readonly string[];
  readonly stream: boolean;
  /** The client's name for its end user. Upstreams use it against abuse, and the gateway to keep a session on its channel. */
  readonly endUser: string | null;
  /** Requests with the same key probably share a prefix, and are cached better on one channel. */
  readonly promptCacheKey: string | null;
  readonly serviceTier: string | null;
  readonly verbosity: "low" | "medium" | "high" | null;
  /** The upstream may look for pages of the web; absent: it is not asked to. A dialect that has no place for it names it as dropped. */
  readonly webSearch?: WebSearch;
  /** Fields of the request that the model has no place for: they are reported as dropped wherever the request is translated. */
  readonly uncarried: readonly string[];
}

export type ConversationRole = "system" | "developer" | "user" | "assistant" | "tool";

/** One message, at its place in the conversation. The results of tools have turns of their own, with the role `tool`. */
export interface ConversationTurn {
  readonly role: ConversationRole;
  readonly parts: readonly Part[];
}

export type Part = TextPart | ImagePart | InputAudioPart | FilePart | ToolCallPart | ToolResultPart | ReasoningPart | RefusalPart;

export interface TextPart {
  readonly kind: "text";
  readonly text: string;
  readonly cache?: CacheMarker;
  /** What the text was made of, as the provider wrote it. A provider that gets its own citations back finds its cache again. */
  readonly citations?: ProviderValue;
  /** Some providers sign texts as well as calls. A signature belongs to exactly this text. */
  readonly signature?: ProviderValue;
}

export interface ImagePart {
  readonly kind: "image";
  readonly source: MediaSource;
  readonly detail?: string;
  readonly cache?: CacheMarker;
}

export interface InputAudioPart {
  readonly kind: "audio";
  /** `wav` or `mp3`, as the OpenAI API names them. */
  readonly format: string;
  readonly data: string;
}

export interface FilePart {
  readonly kind: "file";
  readonly source: MediaSource;
  readonly name: string | null;
  readonly cache?: CacheMarker;
}

export type MediaSource =
  /** `data` is base64. */
  | { readonly kind: "data"; readonly mediaType: string; readonly data: string }
  | { readonly kind: "url"; readonly url: string }
  /** A text document. */
  | { readonly kind: "text"; readonly text: string }
  /** A file that was uploaded to a provider: it exists only there. */
  | { readonly kind: "id"; readonly id: string };

export interface ToolCallPart {
  readonly kind: "tool_call";
  readonly id: string;
  readonly name: string;
  /** The arguments as JSON; for a custom tool, its input as it is. */
  readonly arguments: string;
  /** A custom tool takes free text (OpenAI Responses: `custom_tool_call`). */
  readonly custom?: boolean;
  /** The namespace of tools that it was declared in (OpenAI Responses). */
  readonly namespace?: string;
  /** It looks up more tools (OpenAI Responses: `tool_search_call`). */
  readonly search?: true;
  readonly signature?: ProviderValue;
  readonly cache?: CacheMarker;
}

export interface ToolResultPart {
  readonly kind: "tool_result";
  readonly callId: string;
  readonly content: readonly (TextPart | ImagePart | FilePart | InputAudioPart)[];
  readonly isError: boolean;
  readonly cache?: CacheMarker;
}

export interface ReasoningPart {
  readonly kind: "reasoning";
  /** Empty where the provider does not show it. */
  readonly text: string;
  /** A summary of the reasoning, not the reasoning itself (OpenAI Responses). */
  readonly summary?: boolean;
  /** What the provider needs to believe it its own: returned verbatim to the provider that made it, and to no other. */
  readonly signature: ProviderValue | null;
  /** The provider shows only an encrypted form, which is the signature. */
  readonly redacted?: boolean;
}

export interface RefusalPart {
  readonly kind: "refusal";
  readonly text: string;
}

/** A value that only its provider understands. It is never made, changed, or sent to another provider. */
export interface ProviderValue {
  /** The dialect of the provider that made it. */
  readonly dialect: string;
  readonly data: string;
}

/** What begins a value that this gateway sealed for a client to carry (`AnswerContext.seal`). No provider's own value begins so. */
export const sealedPrefix = "sluice-v1.";

/** How such a value begins as base64, in either alphabet: a client whose API has bytes in that place carries it so. */
export const sealedBase64Prefix = "c2x1aWNlLXYx";

/** A value that a client gives back: it is the gateway's own by its prefix, else of the provider whose API the client speaks. */
export function returnedValue(data: string, dialect: string): ProviderValue {
  return { dialect: data.startsWith(sealedPrefix) ? "sluice" : dialect, data };
}

/** The prefix up to here is worth caching. */
export interface CacheMarker {
  readonly ttl: "5m" | "1h" | null;
}

export interface Tool {
  readonly name: string;
  readonly description: string | null;
  /** A JSON schema. Null for a custom tool. */
  readonly parameters: JsonObject | null;
  readonly strict: boolean | null;
  /**
   * Takes free text instead of arguments. The format is a description of that text (such as a grammar), or null; the syntax is that of
   * a grammar.
   */
  readonly custom?: { readonly format: string | null; readonly syntax?: "lark" | "regex" };
  readonly namespace?: string;
  readonly namespaceDescription?: string;
  /** The client looks up more tools with it (OpenAI Responses: `tool_search`). */
  readonly search?: true;
  readonly cache?: CacheMarker;
}

export type ToolChoice =
  | { readonly kind: "auto" }
  | { readonly kind: "none" }
  | { readonly kind: "required" }
  | { readonly kind: "named"; readonly name: string };

export type OutputFormat =
  | { readonly kind: "text" }
  | { readonly kind: "json" }
  | {
      readonly kind: "schema";
      readonly name: string | null;
      readonly description: string | null;
      readonly schema: JsonObject;
      readonly strict: boolean | null;
    };

export interface Sampling {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly topK: number | null;
  readonly presencePenalty: number | null;
  readonly frequencyPenalty: number | null;
  readonly seed: number | null;
  /** How many alternatives for each token; null: no log probabilities. */
  readonly topLogprobs: number | null;
}

export interface WebSearch {
  /** Where the person is that asks, roughly: `country`, `region`, `city` and `timezone`, as far as they are known. */
  readonly location: Readonly<Record<string, string>> | null;
  readonly contextSize: "low" | "medium" | "high" | null;
}

/** The name of the field that asks for it, where that has no place. */
export const webSearchField = "web_search_options";

/** Whether a request that was written for an upstream asks it to search. */
export function searchesWeb({ webSearch }: Pick<Conversation, "webSearch">, dropped: readonly string[]): boolean {
  return webSearch !== undefined && !dropped.includes(webSearchField);
}

/** How much the model is asked to reason. */
export interface ReasoningRequest {
  readonly effort: ReasoningEffort | null;
  /** The most tokens for reasoning, where the client gives a number. */
  readonly budgetTokens: number | null;
  /** How much of it the client wants to read: `none`, or the kind of summary that it names. */
  readonly summary: string | null;
}

export type ReasoningEffort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
