import type { Address } from "../../channels/channel.ts";
import type { Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { ErrorResponse, EventDecoder, StreamReader } from "../dialect.ts";
import { EventReader } from "../readers/event-reader.ts";
import { promptFields } from "./prompt-fields.ts";

/**
 * Where the API is served. Its own provider and several clouds serve the same bodies; what differs is where a few values stand, and how
 * a stream is framed.
 */
export interface AnthropicHost {
  /** The name of the dialect: a channel names it. */
  readonly dialect: string;
  /** The model stands in the path, not in the body. */
  readonly modelInPath: boolean;
  /** Whether the answer is streamed stands in the path alone; elsewhere the body has to say it as well. */
  readonly streamInPath: boolean;
  /** How the path of a whole answer ends, and that of a stream; null: they are the same. */
  readonly endings: { readonly whole: string; readonly streamed: string } | null;
  /** The version of the API: in a header, or in the body. */
  readonly version: { readonly place: "header" | "body"; readonly value: string };
  /** Where the names of beta features stand. */
  readonly betas: "header" | "body";
  /** The beta features that it is known to take, where it refuses requests that name others; null: it takes all that there are. */
  readonly knownBetas: ReadonlySet<string> | null;
  /** Fetches images and documents by their URL. */
  readonly fetches: boolean;
  /** Has a tool that looks for pages of the web. */
  readonly searches: boolean;
  /** Keeps to JSON schemas, where the model does. */
  readonly schemas: boolean;
  /** Accepts `disable_parallel_tool_use`. */
  readonly parallelChoice: boolean;
  /** Takes system messages inside the conversation, where the model does. */
  readonly systemInside: boolean;
  /** Reads the framing of a stream. */
  readonly reader: (decoder: EventDecoder) => StreamReader;
  /** Explains an error response, where errors are those of the host; absent where they are those of the API. */
  readonly explain?: (response: ErrorResponse) => Failure;
  /** How it counts the tokens of a prompt. */
  readonly counts: HostTokenCount;
}

export interface HostTokenCount {
  /** The path, made of that of a whole answer. */
  readonly path: (chatPath: string) => string;
  /** The body, made of that of a request for an answer. */
  readonly body: (fields: JsonObject, model: string) => JsonObject;
  /** The name of the number in the answer. */
  readonly answer: string;
}

function events(decoder: EventDecoder): StreamReader {
  return new EventReader(decoder);
}

/** Anthropic itself, and every provider and cloud that serves the API as it is under another address. */
export const ownHost: AnthropicHost = {
  dialect: "anthropic",
  modelInPath: false,
  streamInPath: false,
  endings: null,
  version: { place: "header", value: "2023-06-01" },
  betas: "header",
  knownBetas: null,
  fetches: true,
  searches: true,
  schemas: true,
  parallelChoice: true,
  systemInside: true,
  reader: events,
  counts: { path: (path) => `${path}/count_tokens`, body: promptFields, answer: "input_tokens" },
};

/** Of the beta features, those that clouds document (docs.aws.amazon.com/bedrock, on the inference parameters). Which a model takes differs. */
const cloudBetas: ReadonlySet<string> = new Set([
  ...["computer-use-2024-10-22", "computer-use-2025-01-24", "computer-use-2025-11-24", "token-efficient-tools-2025-02-19"],
  ...["interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14", "dev-full-thinking-2025-05-14"],
  ...["output-128k-2025-02-19", "context-1m-2025-08-07", "context-management-2025-06-27", "effort-2025-11-24"],
  ...["tool-search-tool-2025-10-19", "tool-examples-2025-10-29"],
]);

export const vertexHost: AnthropicHost = {
  ...ownHost,
  dialect: "anthropic-vertex",
  modelInPath: true,
  endings: { whole: ":rawPredict", streamed: ":streamRawPredict" },
  version: { place: "body", value: "vertex-2023-10-16" },
  knownBetas: cloudBetas,
  fetches: false,
  schemas: false,
  // Stands beside the models, and names the model in the body again (the host's page on counting tokens of partner models).
  counts: {
    path: (path) => path.replace("{model}", "count-tokens"),
    body: (fields, model) => ({ ...promptFields(fields), model }),
    answer: "input_tokens",
  },
};

/** Its streams have a framing of their own, and so have its errors: whoever knows them gives the readers. */
export function bedrockHost(reader: AnthropicHost["reader"], explain?: AnthropicHost["explain"]): AnthropicHost {
  return {
    ...ownHost,
    dialect: "anthropic-bedrock",
    modelInPath: true,
    streamInPath: true,
    endings: { whole: "/invoke", streamed: "/invoke-with-response-stream" },
    version: { place: "body", value: "bedrock-2023-05-31" },
    betas: "body",
    knownBetas: cloudBetas,
    fetches: false,
    searches: false,
    schemas: false,
    parallelChoice: false,
    systemInside: false,
    reader,
    // Takes the body of a request for an answer as it is, in base64 (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html).
    counts: {
      path: (path) => path.replace(/\/invoke$/, "/count-tokens"),
      body: (fields) => ({ input: { invokeModel: { body: base64({ max_tokens: 1, ...fields }) } } }),
      answer: "inputTokens",
    },
    ...(explain === undefined ? undefined : { explain }),
  };
}

/** The URL of a request. A base URL may end with the version that the path begins with. */
export function messagesUrl({ endings }: AnthropicHost, address: Address, model: string, stream: boolean): string {
  const path = address.chatPath.replace("{model}", encodeURIComponent(model));
  const isStreamed = stream && endings !== null && path.endsWith(endings.whole);
  const asked = isStreamed ? path.slice(0, -endings.whole.length) + endings.streamed : path;
  return joinedUrl(address.baseUrl, asked) + address.query;
}

export function countUrl({ counts }: AnthropicHost, address: Address, model: string): string {
  const path = counts.path(address.chatPath).replace("{model}", encodeURIComponent(model));
  return joinedUrl(address.baseUrl, path) + address.query;
}

function base64(fields: JsonObject): string {
  return new TextEncoder().encode(JSON.stringify(fields)).toBase64();
}

function joinedUrl(baseUrl: string, path: string): string {
  return baseUrl + withoutVersion(baseUrl, path);
}

/** The path behind a base URL that may already end with `/v1`: both forms are in use. */
export function withoutVersion(baseUrl: string, path: string): string {
  return baseUrl.endsWith(version) && path.startsWith(`${version}/`) ? path.slice(version.length) : path;
}

const version = "/v1";
