import type { SurfaceName } from "../../src/operations/conversation/conversation.ts";

/** The packages that a check needs: those that all tests have, or those of this folder. */
export type TypePackages = "test" | "types";

/** Declarations in TypeScript of what a document has to be, by the providers' own types. They are text, as not everybody has those. */
export interface WireTypes {
  readonly packages: TypePackages;
  /** Imports and types; the type of a document is named after its form: `Request`, `Whole`, `StreamEvent`, `ErrorBody`, `ErrorEvent`. */
  readonly declarations: string;
}

/** Fields that servers other than the maker of the API add to a message that thought, and that their clients read. */
const thoughts = `
interface Thoughts { reasoning?: string; reasoning_content?: string; reasoning_details?: object[] }
/** Gemini's own extension of a call, which carries what signs it. */
interface Signed { extra_content?: object }
`;

const openaiChatRequest = `
import type * as chat from "openai/resources/chat/completions";
${thoughts}
type Assistant = Omit<chat.ChatCompletionAssistantMessageParam, "tool_calls"> & Thoughts
  & { tool_calls?: (chat.ChatCompletionMessageToolCall & Signed)[] };
type Message = Exclude<chat.ChatCompletionMessageParam, { role: "assistant" }> | Assistant;
`;

const messagesRequest = `
import type { MessageCreateParamsBase as Params } from "@anthropic-ai/sdk/resources/messages/messages";
/** The newest models do not take these any more, nor do the types; older ones do. */
interface Sampling { temperature?: number; top_p?: number; top_k?: number }
`;

/** JSON as it is sent, of types that a client uses in a program: bytes are base64, and an enumeration is its values. */
const wire = `
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Wire<T> = unknown extends T ? unknown
  : Same<T, DocumentType> extends true ? T
  : T extends Uint8Array ? string
  : T extends string ? \`\${T}\`
  : T extends number | boolean | null | undefined ? T
  : T extends (infer E)[] ? Wire<E>[]
  : { [K in keyof T as T[K] extends Function ? never : K]: Wire<T[K]> };
`;

/** What each dialect sends. */
export const requestTypes: Readonly<Record<string, WireTypes>> = {
  // The maker of the API knows no field beside its own.
  "openai (of its maker)": {
    packages: "test",
    declarations: `
      import type { ChatCompletionCreateParams } from "openai/resources/chat/completions";
      type Request = ChatCompletionCreateParams;`,
  },
  openai: {
    packages: "test",
    declarations: `${openaiChatRequest}
      type Request = Omit<chat.ChatCompletionCreateParamsNonStreaming, "messages" | "stream"> & {
        messages: Message[]; stream?: boolean; top_k?: number; reasoning?: object };`,
  },
  "openai-responses": {
    packages: "test",
    declarations: `
      import type * as api from "openai/resources/responses/responses";
      // Ids are those of stored items. Where nothing is stored there are none, and the API takes items without them, as Codex sends them.
      type Unstored<T> = T extends unknown ? Omit<T, "id" | "status"> : never;
      type Text = Omit<api.ResponseOutputText, "annotations" | "logprobs"> & Partial<Pick<api.ResponseOutputText, "annotations">>;
      type Said = Omit<api.ResponseOutputMessage, "id" | "status" | "content" | "type">
        & { type?: "message"; content: (Text | api.ResponseOutputRefusal)[] };
      type Item = api.ResponseInputItem | Unstored<api.ResponseReasoningItem> | Said;
      type Request = Omit<api.ResponseCreateParamsBase, "input"> & { input: string | Item[] };`,
  },
  anthropic: {
    packages: "test",
    declarations: `${messagesRequest}
      type Request = Params & Sampling;`,
  },
  "anthropic-vertex": {
    packages: "test",
    declarations: `${messagesRequest}
      type Request = Sampling & Omit<Params, "model"> & { anthropic_version: "vertex-2023-10-16" };`,
  },
  "anthropic-bedrock": {
    packages: "test",
    declarations: `${messagesRequest}
      type Request = Sampling & Omit<Params, "model" | "stream"> & { anthropic_version: "bedrock-2023-05-31"; anthropic_beta?: string[] };`,
  },
  "bedrock-converse": {
    packages: "types",
    declarations: `
      import type { ConverseRequest } from "@aws-sdk/client-bedrock-runtime/dist-types/models/models_0";
      import type { DocumentType } from "@smithy/types";
      ${wire}
      type Request = Wire<Omit<ConverseRequest, "modelId">>;`,
  },
  gemini: {
    packages: "types",
    declarations: `
      import type { Content, GenerationConfig, SafetySetting, Tool, ToolConfig } from "@google/genai";
      import type { DocumentType } from "@smithy/types";
      ${wire}
      type Request = Wire<{
        contents: Content[]; systemInstruction?: Content; tools?: Tool[]; toolConfig?: ToolConfig; generationConfig?: GenerationConfig;
        safetySettings?: SafetySetting[]; serviceTier?: string;
      }>;`,
  },
  // In its types the names are those of its programming language.
  cohere: {
    packages: "types",
    declarations: `
      import type { Cohere } from "cohere-ai";
      type Snake<S extends string> = S extends \`\${infer Head}\${infer Rest}\`
        ? Head extends Lowercase<Head> ? \`\${Head}\${Snake<Rest>}\` : \`_\${Lowercase<Head>}\${Snake<Rest>}\` : S;
      type Wire<T> = unknown extends T ? unknown
        : T extends string | number | boolean | null | undefined ? T
        : T extends (infer E)[] ? Wire<E>[]
        : string extends keyof T ? T
        : { [K in keyof T as K extends string ? Snake<K> : never]: Wire<T[K]> };
      type Request = Wire<Cohere.V2ChatRequest> & { stream?: boolean };`,
  },
};

/** What each surface tells its clients. */
export const answerTypes: Readonly<Record<SurfaceName, WireTypes>> = {
  "openai-chat": {
    packages: "test",
    declarations: `
      import type { ChatCompletion, ChatCompletionChunk, ChatCompletionMessage, ChatCompletionMessageToolCall } from "openai/resources/chat/completions";
      ${thoughts}
      type Message = Omit<ChatCompletionMessage, "tool_calls"> & Thoughts & { tool_calls?: (ChatCompletionMessageToolCall & Signed)[] };
      type Whole = Omit<ChatCompletion, "choices"> & { choices: (Omit<ChatCompletion.Choice, "message"> & { message: Message })[] };
      type Delta = Omit<ChatCompletionChunk.Choice.Delta, "tool_calls"> & Thoughts
        & { tool_calls?: (ChatCompletionChunk.Choice.Delta.ToolCall & Signed)[] };
      type StreamEvent = Omit<ChatCompletionChunk, "choices"> & { choices: (Omit<ChatCompletionChunk.Choice, "delta"> & { delta: Delta })[] };
      import type { ErrorObject } from "openai/resources/shared";
      interface ErrorBody { error: ErrorObject & { request_id: string } }
      type ErrorEvent = ErrorBody;`,
  },
  "openai-responses": {
    packages: "test",
    declarations: `
      import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses";
      import type { ErrorObject } from "openai/resources/shared";
      // The client adds one field to what it was sent. The API has all others in every response, as null where there is nothing to say.
      type Nullable = "user" | "usage";
      // Those that the API sends and https://www.openresponses.org requires, but the client does not declare.
      interface Undeclared { presence_penalty: number; frequency_penalty: number; store: boolean }
      type Whole = Omit<Response, "output_text" | Nullable> & { [K in Nullable]?: Response[K] | null } & Undeclared;
      type Sent<T> = T extends { response: Response } ? Omit<T, "response"> & { response: Whole } : T;
      // Older versions of the types require the name there.
      type Named<T> = T extends { type: "response.function_call_arguments.done" } ? T & { name: string } : T;
      type StreamEvent = Named<Sent<ResponseStreamEvent>>;
      interface ErrorBody { error: ErrorObject }
      // A response that failed has nothing but its error. Codex reads codes that the types do not list.
      interface Failed { id: string; object: "response"; created_at: number; status: "in_progress" | "failed"; incomplete_details: null; output: [];
        usage: null; error: { code: NonNullable<Response["error"]>["code"] | "context_length_exceeded" | "insufficient_quota"; message: string } | null }
      interface ErrorEvent { type: "response.created" | "response.failed"; sequence_number: number; response: Failed }`,
  },
  "anthropic-messages": {
    packages: "test",
    declarations: `
      import type { Message, RawMessageStreamEvent } from "@anthropic-ai/sdk/resources/messages/messages";
      import type { ErrorResponse } from "@anthropic-ai/sdk/resources/shared";
      type Whole = Message;
      type StreamEvent = RawMessageStreamEvent;
      // A documented type that the client does not list: https://platform.claude.com/docs/en/api/errors
      interface Large { type: "request_too_large"; message: string }
      type ErrorBody = Omit<ErrorResponse, "error"> & { error: (ErrorResponse["error"] | Large) & { details?: object } };
      type ErrorEvent = ErrorBody;`,
  },
  gemini: {
    packages: "types",
    declarations: `
      import type { GenerateContentResponse } from "@google/genai";
      import type { DocumentType } from "@smithy/types";
      ${wire}
      type Getters = "text" | "data" | "functionCalls" | "executableCode" | "codeExecutionResult" | "sdkHttpResponse" | "initialPromptTokenCount";
      type Whole = Wire<Omit<GenerateContentResponse, Getters>>;
      type StreamEvent = Whole;
      // google.rpc.Status, which the client does not declare: https://cloud.google.com/apis/design/errors
      interface Detail { "@type": string; reason?: string; domain?: string; metadata?: Record<string, string>; requestId?: string }
      interface ErrorBody { error: { code: number; message: string; status: string; details?: Detail[] } }
      type ErrorEvent = ErrorBody;`,
  },
};

/** What else clients are told, by what it is. */
export const otherTypes = {
  "the models in anthropic-messages": {
    packages: "test",
    declarations: `
      import type { ModelInfo } from "@anthropic-ai/sdk/resources/models";
      interface Whole { data: ModelInfo[]; has_more: boolean; first_id: string | null; last_id: string | null }`,
  },
  "a model in anthropic-messages": {
    packages: "test",
    declarations: `
      import type { ModelInfo } from "@anthropic-ai/sdk/resources/models";
      type Whole = ModelInfo;`,
  },
  "a count of tokens in anthropic-messages": {
    packages: "test",
    declarations: `
      import type { MessageTokensCount } from "@anthropic-ai/sdk/resources/messages/messages";
      type Whole = MessageTokensCount;`,
  },
  "a count of tokens in gemini": {
    packages: "types",
    declarations: `
      import type { CountTokensResponse } from "@google/genai";
      type Whole = Omit<CountTokensResponse, "sdkHttpResponse">;`,
  },
} as const satisfies Record<string, WireTypes>;
