import type {
  Conversation,
  ConversationTurn,
  FilePart,
  ImagePart,
  InputAudioPart,
  OutputFormat,
  Part,
  ReasoningRequest,
  Tool,
  ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { customDescription, customParameters } from "../../operations/conversation/custom-input.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { argumentsObject } from "../translated/tool-calls.ts";

export interface CohereBody {
  readonly body: Uint8Array;
  readonly dropped: readonly string[];
}

/**
 * A conversation as the body of a chat of Cohere's second API. Each turn is encoded by itself, so that a conversation that goes on
 * begins with the same messages. A failure names content that the API cannot carry.
 */
export function encodeCohere(conversation: Conversation, model: string, maxOutputTokens: number | null): CohereBody | Failure {
  const { sampling, toolChoice, stop } = conversation;
  if (sampling.topLogprobs !== null) return noLogprobs;
  const dropped = new Set(conversation.uncarried);
  const messages: unknown[] = [];
  for (const turn of conversation.turns) {
    const encoded = encodeTurn(turn, dropped);
    if (isFailure(encoded)) return encoded;
    messages.push(...encoded);
  }
  // The API cannot name a tool, but has to call one if it is given no other.
  const tools = toolChoice?.kind === "named" ? conversation.tools.filter(({ name }) => name === toolChoice.name) : conversation.tools;
  const body = present({
    model,
    messages,
    stream: conversation.stream,
    tools: tools.length === 0 ? null : tools.map((tool) => encodeTool(tool, dropped)),
    tool_choice: tools.length === 0 ? null : choiceOf(toolChoice),
    max_tokens: maxOutputTokens === null ? null : Math.max(1, maxOutputTokens),
    temperature: sampling.temperature,
    p: sampling.topP === null ? null : Math.min(0.99, Math.max(0.01, sampling.topP)),
    k: sampling.topK === null ? null : Math.min(500, sampling.topK),
    seed: sampling.seed,
    presence_penalty: penalty(sampling.presencePenalty, "presence_penalty", dropped),
    frequency_penalty: penalty(sampling.frequencyPenalty, "frequency_penalty", dropped),
    stop_sequences: stop.length === 0 ? null : stop.slice(0, stopsMax),
    response_format: formatOf(conversation.outputFormat),
    thinking: thinkingOf(conversation.reasoning),
  });
  if (stop.length > stopsMax) dropped.add("stop");
  if (conversation.parallelToolCalls === false && tools.length > 0) dropped.add("parallel_tool_calls");
  if (conversation.verbosity !== null) dropped.add("verbosity");
  if (conversation.serviceTier !== null && conversation.serviceTier !== "auto") dropped.add("service_tier");
  return { body: textEncoder.encode(JSON.stringify(body)), dropped: [...dropped] };
}

function encodeTurn({ role, parts }: ConversationTurn, dropped: Set<string>): readonly unknown[] | Failure {
  switch (role) {
    case "system":
    case "developer": {
      const text = textIn(parts);
      return text === "" ? [] : [{ role: "system", content: text }];
    }
    case "user": {
      const content = contentOf(parts, dropped);
      return typeof content !== "string" && isFailure(content) ? content : [{ role, content }];
    }
    case "assistant":
      return encodeAssistant(parts, dropped);
    case "tool":
      return encodeResults(parts, dropped);
  }
}

/** The API has either a text or calls in a message. What is said beside calls is the plan for them. */
function encodeAssistant(parts: readonly Part[], dropped: Set<string>): readonly unknown[] {
  const calls: unknown[] = [];
  let thought = "";
  for (const part of parts) {
    if (part.kind === "tool_call") {
      calls.push({ id: part.id, type: "function", function: { name: wireName(part), arguments: JSON.stringify(argumentsObject(part)) } });
    } else if (part.kind === "reasoning") thought += part.text;
    else if (part.kind !== "text" && part.kind !== "refusal") dropped.add(`assistant ${part.kind}`);
  }
  const text = textIn(parts);
  if (calls.length === 0) return text === "" ? [] : [{ role: "assistant", content: text }];
  const plan = text === "" ? thought : text;
  return [{ role: "assistant", tool_calls: calls, ...(plan === "" ? undefined : { tool_plan: plan }) }];
}

/** The result of a tool is a text here: images follow in a message of the user. */
function encodeResults(parts: readonly Part[], dropped: Set<string>): readonly unknown[] | Failure {
  // Two results for one call are refused; the last one counts.
  const results = new Map<string, ToolResultPart>();
  for (const part of parts) if (part.kind === "tool_result") results.set(part.callId, part);
  const messages: unknown[] = [];
  const attached: Part[] = [];
  for (const { callId, content, isError } of results.values()) {
    const text = content.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n");
    messages.push({ role: "tool", tool_call_id: callId, content: isError ? `Error: ${text}` : text });
    attached.push(...content.filter(({ kind }) => kind !== "text"));
  }
  if (attached.length === 0) return messages;
  const content = contentOf([{ kind: "text", text: "The tool results above include:" }, ...attached], dropped);
  return typeof content !== "string" && isFailure(content) ? content : [...messages, { role: "user", content }];
}

/** A string, unless there is an image: older models take nothing else. */
function contentOf(parts: readonly Part[], dropped: Set<string>): string | readonly unknown[] | Failure {
  const content: CoherePart[] = [];
  for (const part of parts) {
    switch (part.kind) {
      case "text":
        if (part.text !== "") content.push({ type: "text", text: part.text });
        break;
      case "image":
      case "audio":
      case "file": {
        const encoded = mediaOf(part);
        if (isFailure(encoded)) return encoded;
        content.push(encoded);
        break;
      }
      default:
        dropped.add(`user ${part.kind}`);
    }
  }
  const texts = content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === content.length ? texts.join("\n") : content;
}

type CoherePart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string; readonly detail?: string } };

function mediaOf(part: ImagePart | InputAudioPart | FilePart): CoherePart | Failure {
  if (part.kind === "audio") return noAudio;
  const { source } = part;
  if (part.kind === "file") {
    if (source.kind !== "text") return noFiles;
    return { type: "text", text: part.name === null ? source.text : `${part.name}:\n\n${source.text}` };
  }
  if (source.kind === "id" || source.kind === "text") return noUploads;
  const url = source.kind === "url" ? source.url : `data:${source.mediaType};base64,${source.data}`;
  return { type: "image_url", image_url: { url, ...(part.detail === undefined ? undefined : { detail: part.detail }) } };
}

function encodeTool(tool: Tool, dropped: Set<string>): unknown {
  const description = tool.custom === undefined ? tool.description : customDescription(tool);
  if (tool.strict === true) dropped.add("strict");
  return {
    type: "function",
    function: {
      name: wireName(tool),
      ...(description === null ? undefined : { description }),
      parameters: tool.custom === undefined ? (tool.parameters ?? { type: "object", properties: {} }) : customParameters,
    },
  };
}

function choiceOf(choice: Conversation["toolChoice"]): string | null {
  if (choice === null || choice.kind === "auto") return null;
  return choice.kind === "none" ? "NONE" : "REQUIRED";
}

function formatOf(format: OutputFormat | null): unknown {
  if (format === null || format.kind === "text") return null;
  return { type: "json_object", ...(format.kind === "json" ? undefined : { json_schema: format.schema }) };
}

/** The API has budgets and no levels: a level is a share of the largest budget. */
function thinkingOf(reasoning: ReasoningRequest | null): unknown {
  if (reasoning === null) return null;
  const { effort, budgetTokens } = reasoning;
  if (effort === "none") return { type: "disabled" };
  if (budgetTokens !== null) return { type: "enabled", token_budget: Math.min(budgetTokens, thinkingMax) };
  return effort === null ? null : { type: "enabled", token_budget: Math.round(thinkingMax * thinkingShares[effort]) };
}

const thinkingMax = 32_768;
const thinkingShares = { minimal: 0.05, low: 0.2, medium: 0.5, high: 0.8, xhigh: 0.9, max: 1 };

/** Only rewards for new words: a negative penalty has no counterpart. */
function penalty(value: number | null, name: string, dropped: Set<string>): number | null {
  if (value === null || value === 0) return null;
  if (value < 0 || value > 1) dropped.add(name);
  return value < 0 ? null : Math.min(1, value);
}

function textIn(parts: readonly Part[]): string {
  return parts.map((part) => (part.kind === "text" || part.kind === "refusal" ? part.text : "")).join("");
}

function present(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

const stopsMax = 5;
const noLogprobs = refused("the upstream's log probabilities are not translated", "This model reports no log probabilities.", "logprobs");
const noAudio = refused("the upstream takes no audio", "This model takes no audio.");
const noFiles = refused("the upstream takes files as text only", "This model takes files as text only.");
const noUploads = refused("the upstream takes no uploaded images", "This model takes images by URL or as base64 data, not by file id.");

function refused(detail: string, message: string, param: string | null = null): Failure {
  return failure("unsupported", detail, { message, param });
}

const textEncoder = new TextEncoder();
