import { customDescription, customParameters, wrapCustomInput } from "../../operations/conversation/custom-input.ts";
import type {
  InputAudioPart,
  Conversation,
  FilePart,
  ImagePart,
  MediaSource,
  OutputFormat,
  Part,
  ReasoningPart,
  Tool,
  ToolCallPart,
  ToolChoice,
  ToolResultPart,
  ConversationTurn,
} from "../../operations/conversation/conversation.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { Quirks } from "../../channels/channel.ts";
import { callExtra, ownDialect, reasoningForm, type ReasoningForm } from "./reasoning-value.ts";

export interface ChatBody {
  readonly body: Uint8Array;
  readonly dropped: readonly string[];
}

export interface ChatBodyOptions {
  readonly model: string;
  readonly maxOutputTokens: number | null;
  readonly quirks: Quirks;
  /** Ask for usage at the end of a stream. */
  readonly meterStream: boolean;
}

/**
 * A conversation as the body of a chat completion. Each turn is encoded by itself, so that a conversation that goes on begins with the
 * same bytes: prompt caches depend on it. A failure names content that the API cannot carry.
 */
export function encodeChatBody(
  conversation: Conversation,
  { model, maxOutputTokens, quirks, meterStream }: ChatBodyOptions,
): ChatBody | Failure {
  const unreadable = unreadableIn(conversation);
  if (unreadable !== null) return unreadable;
  const dropped = new Set(conversation.uncarried);
  const { sampling, reasoning, tools, stop, turns } = conversation;
  const needsReasoning = quirks.needsReasoning === true && tools.length > 0;
  const messages = turns.flatMap((turn) => encodeTurn(turn, quirks, needsReasoning, dropped));
  if (sampling.topK !== null) dropped.add("top_k");
  if (stop.length > stopsMax) dropped.add("stop_sequences");
  const body: Record<string, unknown> = { model, messages };
  if (tools.length > 0) {
    body["tools"] = tools.map(encodeTool);
    if (conversation.toolChoice !== null) body["tool_choice"] = encodeToolChoice(conversation.toolChoice, tools);
    if (conversation.parallelToolCalls !== null) body["parallel_tool_calls"] = conversation.parallelToolCalls;
  }
  // Zero, which fills a prompt cache in another API, is refused in this one.
  if (maxOutputTokens !== null) body[quirks.tokenBound] = Math.max(1, maxOutputTokens);
  const effort = reasoning?.effort ?? effortOf(reasoning?.budgetTokens ?? null);
  if (effort !== null) body["reasoning_effort"] = effort;
  if (conversation.outputFormat !== null) body["response_format"] = encodeFormat(conversation.outputFormat);
  set(body, "temperature", sampling.temperature);
  set(body, "top_p", sampling.topP);
  set(body, "presence_penalty", sampling.presencePenalty);
  set(body, "frequency_penalty", sampling.frequencyPenalty);
  set(body, "seed", sampling.seed);
  if (sampling.topLogprobs !== null) {
    body["logprobs"] = true;
    if (sampling.topLogprobs > 0) body["top_logprobs"] = sampling.topLogprobs;
  }
  if (stop.length > 0) body["stop"] = stop.slice(0, stopsMax);
  set(body, "user", conversation.endUser === null ? null : shortName(conversation.endUser));
  set(body, "prompt_cache_key", conversation.promptCacheKey);
  set(body, "service_tier", conversation.serviceTier);
  set(body, "verbosity", conversation.verbosity);
  if (conversation.stream) {
    body["stream"] = true;
    if (meterStream) body["stream_options"] = { include_usage: true };
  }
  return { body: encoder.encode(JSON.stringify(body)), dropped: [...dropped] };
}

function set(body: Record<string, unknown>, key: string, value: unknown): void {
  if (value !== null) body[key] = value;
}

function encodeTurn(turn: ConversationTurn, quirks: Quirks, needsReasoning: boolean, dropped: Set<string>): readonly unknown[] {
  switch (turn.role) {
    case "system":
    case "developer":
    case "user": {
      const content = contentOf(turn.parts);
      const role = turn.role === "developer" && !quirks.developerRole ? "system" : turn.role;
      return content === "" && role !== "user" ? [] : [{ role, content }];
    }
    case "assistant":
      return encodeAnswer(turn.parts, quirks, needsReasoning, dropped);
    case "tool":
      return encodeResults(turn.parts);
  }
}

function encodeAnswer(parts: readonly Part[], quirks: Quirks, needsReasoning: boolean, dropped: Set<string>): readonly unknown[] {
  const texts: string[] = [];
  const calls: unknown[] = [];
  const reasoning = new ReturnedReasoning();
  let refusal: string | null = null;
  for (const part of parts) {
    switch (part.kind) {
      case "text":
        texts.push(part.text);
        break;
      case "refusal":
        refusal = (refusal ?? "") + part.text;
        break;
      case "reasoning":
        reasoning.add(part);
        break;
      case "tool_call":
        calls.push({
          id: part.id,
          type: "function",
          function: {
            name: wireName(part),
            arguments: part.custom === true ? wrapCustomInput(part.arguments) : objectText(part.arguments),
          },
          ...extraOf(part),
        });
        break;
      default:
        dropped.add(`assistant ${part.kind}`);
    }
  }
  const text = texts.join("");
  if (text === "" && calls.length === 0 && refusal === null) return none;
  return [
    {
      role: "assistant",
      content: text === "" ? null : text,
      ...(quirks.reasoningHistory ? reasoning.fields(needsReasoning) : undefined),
      ...(refusal === null ? undefined : { refusal }),
      ...(calls.length === 0 ? undefined : { tool_calls: calls }),
    },
  ];
}

function extraOf({ signature }: ToolCallPart): { readonly extra_content: JsonObject } | undefined {
  const extra = callExtra(signature);
  return extra === null ? undefined : { extra_content: extra };
}

/** The reasoning of one answer that its upstream gets back: its own, as it came, and what nobody signed. Never that of another. */
class ReturnedReasoning {
  private readonly thoughts: string[] = [];
  private readonly details: JsonObject[] = [];
  private form: ReasoningForm | null = null;

  add({ text, summary, signature }: ReasoningPart): void {
    if (signature !== null && signature.dialect !== ownDialect) return;
    if (text !== "" && summary !== true) this.thoughts.push(text);
    if (signature === null) return;
    this.form = reasoningForm(signature);
    this.details.push(...this.form.details);
  }

  fields(needed: boolean): Readonly<Record<string, unknown>> {
    const { thoughts, details, form } = this;
    const text = thoughts.join(form === null ? "\n" : "");
    return {
      ...(text === "" && !needed ? undefined : { [form?.field ?? "reasoning_content"]: text }),
      ...(details.length === 0 ? undefined : { reasoning_details: details }),
    };
  }
}

/** Upstreams reject arguments that are not an object: what is none is wrapped, and never lost. */
function objectText(args: string): string {
  if (args.trim() === "") return "{}";
  try {
    const value: unknown = JSON.parse(args);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return args;
    if (value === null) return "{}";
  } catch {
    // Wrapped below.
  }
  return JSON.stringify({ _raw: args });
}

/** A tool message carries text only: images and files follow in a message of the user. */
function encodeResults(parts: readonly Part[]): readonly unknown[] {
  // Two results for one call are refused by most upstreams; the last one counts.
  const results = new Map<string, ToolResultPart>();
  for (const part of parts) if (part.kind === "tool_result") results.set(part.callId, part);
  const messages: unknown[] = [];
  const attached: (ImagePart | FilePart | InputAudioPart)[] = [];
  for (const { callId, content, isError } of results.values()) {
    const texts: string[] = [];
    for (const part of content) {
      if (part.kind === "text") texts.push(part.text);
      else attached.push(part);
    }
    const text = texts.join("\n");
    messages.push({ role: "tool", tool_call_id: callId, content: isError ? `Error: ${text}` : text });
  }
  if (attached.length === 0) return messages;
  const content = contentOf([{ kind: "text", text: "The tool results above include:" }, ...attached]);
  return [...messages, { role: "user", content }];
}

/** A string where there is only one text, which every upstream takes; else parts. */
function contentOf(parts: readonly Part[]): string | readonly unknown[] {
  const [first] = parts;
  if (parts.length === 1 && first?.kind === "text") return first.text;
  const content = parts.map(encodePart).filter((part) => part !== null);
  return content.length === 0 ? "" : content;
}

function encodePart(part: Part): unknown {
  switch (part.kind) {
    case "text":
      return part.text === "" ? null : { type: "text", text: part.text };
    case "image":
      return {
        type: "image_url",
        image_url: { url: urlOf(part.source), ...(part.detail === undefined ? undefined : { detail: part.detail }) },
      };
    case "audio":
      return { type: "input_audio", input_audio: { data: part.data, format: part.format } };
    case "file":
      return encodeFile(part);
    default:
      return null;
  }
}

function encodeFile({ source, name }: FilePart): unknown {
  if (source.kind === "text") return { type: "text", text: name === null ? source.text : `${name}:\n\n${source.text}` };
  if (source.kind === "id") return { type: "file", file: { file_id: source.id } };
  return { type: "file", file: { filename: name ?? "file", file_data: urlOf(source) } };
}

function urlOf(source: MediaSource): string {
  if (source.kind === "data") return `data:${source.mediaType};base64,${source.data}`;
  return source.kind === "url" ? source.url : "";
}

/** Content that the API has no way to carry. Another channel may be able to. */
function unreadableIn({ turns }: Conversation): Failure | null {
  for (const { parts } of turns) {
    for (const part of parts) {
      for (const one of part.kind === "tool_result" ? part.content : [part]) {
        if (one.kind === "file" && one.source.kind === "url") return fileByUrl;
        if (one.kind === "image" && (one.source.kind === "id" || one.source.kind === "text")) return imageById;
      }
    }
  }
  return null;
}

const fileByUrl = failure("unsupported", "the upstream takes no files by URL", {
  message: "This model takes files as base64 data, not by URL.",
});
const imageById = failure("unsupported", "the upstream takes no uploaded images", {
  message: "This model takes images by URL or as base64 data, not by file id.",
});

function encodeTool(tool: Tool): unknown {
  const description = tool.custom === undefined ? tool.description : customDescription(tool);
  return {
    type: "function",
    function: {
      name: wireName(tool),
      ...(description === null ? undefined : { description }),
      parameters: tool.custom === undefined ? (tool.parameters ?? { type: "object", properties: {} }) : customParameters,
      ...(tool.strict === null ? undefined : { strict: tool.strict }),
    },
  };
}

function encodeToolChoice(choice: ToolChoice, tools: readonly Tool[]): unknown {
  if (choice.kind !== "named") return choice.kind;
  const tool = tools.find(({ name }) => name === choice.name);
  return { type: "function", function: { name: tool === undefined ? choice.name : wireName(tool) } };
}

function encodeFormat(format: OutputFormat): unknown {
  switch (format.kind) {
    case "text":
      return { type: "text" };
    case "json":
      return { type: "json_object" };
    case "schema": {
      const { name, description, schema, strict } = format;
      return {
        type: "json_schema",
        json_schema: {
          name: name ?? "structured_output",
          ...(description === null ? undefined : { description }),
          schema,
          ...(strict === null ? undefined : { strict }),
        },
      };
    }
  }
}

/** The API has levels and no budgets: a budget is the level that is commonly given so many tokens. */
function effortOf(budgetTokens: number | null): string | null {
  if (budgetTokens === null) return null;
  if (budgetTokens < 4096) return "low";
  return budgetTokens < 16_384 ? "medium" : "high";
}

/** Providers take 64 characters, and one client sends more than a hundred. */
function shortName(name: string): string {
  return name.length <= userMax ? name : wireName({ name });
}

const userMax = 64;
const stopsMax = 4;
const none: readonly unknown[] = [];
const encoder = new TextEncoder();
