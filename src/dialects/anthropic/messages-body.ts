import {
  webSearchField,
  type Conversation,
  type ConversationTurn,
  type OutputFormat,
  type Part,
  type Tool,
  type ToolChoice,
  type ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { customDescription, customParameters } from "../../operations/conversation/custom-input.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import {
  answerBlocks,
  CallIds,
  markedJson,
  resultBlock,
  textBlocks,
  userBlocks,
  type BlockOptions,
  type EncodedBlock,
} from "./content-blocks.ts";
import { withAnswerTool } from "./answer-tool.ts";
import type { AnthropicHost } from "./hosts.ts";
import { messagesModel, type MessagesModel } from "./model-facts.ts";
import { outputSchema } from "./output-schema.ts";
import { thinkingFields, type ThinkingFields } from "./thinking.ts";

export interface MessagesBody {
  readonly body: Uint8Array;
  readonly dropped: readonly string[];
}

export interface MessagesBodyOptions {
  readonly host: AnthropicHost;
  readonly model: string;
  /** The most tokens to ask for; null: as many as the client, or the model, allows. */
  readonly ceiling: number | null;
  /** The names of beta features, where they stand in the body. */
  readonly betas: readonly string[];
}

/**
 * A conversation as a request of the Messages API. Where a conversation goes on after an answer, what was sent before is sent again
 * unchanged: the prompt cache depends on it, and so do the signatures of thoughts, which are bound to all that came before them. A
 * failure names what this upstream cannot carry.
 */
export function encodeMessages(asked: Conversation, options: MessagesBodyOptions): MessagesBody | Failure {
  const { host, model } = options;
  const facts = factsOn(host, model);
  const conversation = withAnswerTool(asked, facts);
  const dropped = new Set(conversation.uncarried);
  const refused = refusal(conversation, facts);
  if (refused !== null) return refused;
  const { system, messages } = parted(conversation.turns);
  const list = new MessageList(facts, { fetches: host.fetches }, dropped).encode(messages);
  if (isFailure(list)) return list;
  const instruction = formatInstruction(conversation.outputFormat, facts);
  const prompt = [...system.flatMap(({ parts }) => systemBlocks(parts)), ...textBlocks(instruction ?? "")];
  const tools = [...conversation.tools.map((tool) => encodeTool(tool, facts)), ...searchTool(conversation, host, dropped)];
  const isMarked = [...tools, ...prompt, ...list.flatMap(({ blocks }) => blocks)].some(({ cache }) => cache !== undefined);
  const encoded = conversation.promptCacheKey === null || isMarked ? list : markedAtEnd(list);
  const keep = markersToKeep([...tools, ...prompt, ...encoded.flatMap(({ blocks }) => blocks)]);

  const wished = conversation.maxOutputTokens ?? facts.outputMax;
  const maxTokens = Math.max(1, Math.min(wished, options.ceiling ?? wished));
  const thought = thinkingFields(conversation, facts, maxTokens, callsUnthought(encoded));
  if (thought.isDropped) dropped.add("reasoning_effort");
  const fields: [string, string][] = [];
  const set = (key: string, value: unknown): void => {
    if (value !== null && value !== undefined) fields.push([key, JSON.stringify(value)]);
  };
  if (!host.modelInPath) set("model", model);
  if (host.version.place === "body") set("anthropic_version", host.version.value);
  if (host.betas === "body" && options.betas.length > 0) set("anthropic_beta", options.betas);
  set("max_tokens", maxTokens);
  if (tools.length > 0) {
    fields.push(["tools", `[${tools.map((tool) => marked(tool, keep)).join(",")}]`]);
    if (conversation.tools.length > 0) set("tool_choice", encodeChoice(conversation, facts, host, dropped));
  }
  if (prompt.length > 0) fields.push(["system", `[${prompt.map((block) => marked(block, keep)).join(",")}]`]);
  fields.push(["messages", `[${encoded.map((message) => messageJson(message, keep)).join(",")}]`]);
  set("thinking", thought.thinking);
  set("output_config", outputConfig(conversation.outputFormat, facts, thought));
  encodeSampling(conversation, facts, thought, dropped, set);
  const stops = conversation.stop.filter((stop) => stop.trim() !== "");
  if (stops.length < conversation.stop.length) dropped.add("stop");
  if (stops.length > 0) set("stop_sequences", stops);
  if (conversation.endUser !== null) set("metadata", { user_id: userId(conversation.endUser) });
  set("service_tier", encodeTier(conversation.serviceTier, dropped));
  if (conversation.verbosity !== null) dropped.add("verbosity");
  if (conversation.stream && !host.streamInPath) set("stream", true);
  const json = `{${fields.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(",")}}`;
  return { body: encoder.encode(json), dropped: [...dropped] };
}

/** The tool that runs at the upstream. A tool of the client with its name is the one that is meant. */
function searchTool({ webSearch, tools }: Conversation, { searches }: AnthropicHost, dropped: Set<string>): readonly EncodedBlock[] {
  if (webSearch === undefined || !searches || tools.some(({ name }) => name === searchName)) return [];
  dropped.delete(webSearchField);
  const { location, contextSize } = webSearch;
  if (contextSize !== null) dropped.add(`${webSearchField}.search_context_size`);
  const place = location === null ? undefined : { user_location: { type: "approximate", ...location } };
  return [{ json: JSON.stringify({ type: "web_search_20250305", name: searchName, ...place }), cache: undefined }];
}

const searchName = "web_search";

function factsOn(host: AnthropicHost, model: string): MessagesModel {
  const facts = messagesModel(model);
  return { ...facts, schemas: facts.schemas && host.schemas, systemInside: facts.systemInside && host.systemInside };
}

/** Wishes that would make the answer another one than the client expects. */
function refusal({ sampling, outputFormat, turns }: Conversation, facts: MessagesModel): Failure | null {
  if (sampling.topLogprobs !== null) return noLogprobs;
  if (outputFormat?.kind === "schema" && outputFormat.strict === true && !facts.schemas) return noSchema;
  return turns.at(-1)?.role === "assistant" && !facts.prefill ? noPrefill : null;
}

const noLogprobs = failure("unsupported", "the upstream has no log probabilities", {
  message: "This model reports no log probabilities.",
  param: "logprobs",
});
const noSchema = failure("unsupported", "the upstream does not enforce schemas", {
  message: "This model cannot be held to a JSON schema.",
  param: "response_format",
});
const noPrefill = failure("unsupported", "the upstream does not continue answers", {
  message: "This model does not continue an assistant message: the conversation must end with one of the user.",
  param: "messages",
});

/** The system prompt before the conversation, and the conversation. */
function parted(turns: readonly ConversationTurn[]): {
  readonly system: readonly ConversationTurn[];
  readonly messages: readonly ConversationTurn[];
} {
  const first = turns.findIndex((turn) => !isSystem(turn));
  const at = first === -1 ? turns.length : first;
  return { system: turns.slice(0, at), messages: turns.slice(at) };
}

function isSystem({ role }: ConversationTurn): boolean {
  return role === "system" || role === "developer";
}

function systemBlocks(parts: readonly Part[]): readonly EncodedBlock[] {
  return parts.flatMap((part) => (part.kind === "text" ? textBlocks(part.text, part.cache) : []));
}

interface EncodedMessage {
  readonly role: "user" | "assistant" | "system";
  readonly blocks: readonly EncodedBlock[];
}

/**
 * The turns of a conversation as messages that alternate. What stands between two answers is one message of the user: the results of
 * tools, then the rest in its order. Instructions between them follow in a message of their own, which the API takes only there; for a
 * model that takes none, they are a marked text of the user at their place.
 */
class MessageList {
  private readonly ids = new CallIds();
  private readonly messages: EncodedMessage[] = [];

  constructor(
    private readonly facts: MessagesModel,
    private readonly options: BlockOptions,
    private readonly dropped: Set<string>,
  ) {}

  encode(turns: readonly ConversationTurn[]): readonly EncodedMessage[] | Failure {
    let at = 0;
    while (at < turns.length) {
      const isAnswer = turns[at]!.role === "assistant";
      let end = at + 1;
      while (end < turns.length && (turns[end]!.role === "assistant") === isAnswer) end++;
      const run = turns.slice(at, end);
      const trouble = isAnswer ? this.addAnswer(run, end === turns.length) : this.addAsked(run);
      if (trouble !== null) return trouble;
      at = end;
    }
    // The API requires a message of the user before anything else.
    if (this.messages[0]?.role !== "user") this.messages.unshift({ role: "user", blocks: textBlocks("(The conversation begins.)") });
    return this.messages;
  }

  private addAnswer(run: readonly ConversationTurn[], isLast: boolean): null {
    const parts = run.flatMap((turn) => turn.parts);
    const last = parts.at(-1);
    // The beginning of an answer that the model is to continue must not end with white space.
    const whole = isLast && last?.kind === "text" ? [...parts.slice(0, -1), { ...last, text: last.text.trimEnd() }] : parts;
    this.add(
      "assistant",
      whole.flatMap((part) => answerBlocks(part, this.ids, this.dropped)),
    );
    return null;
  }

  private addAsked(run: readonly ConversationTurn[]): Failure | null {
    const hasOthers = run.some((turn) => !isSystem(turn));
    const apart = this.facts.systemInside && hasOthers;
    const results: EncodedBlock[] = [];
    const said: EncodedBlock[] = [];
    const instructions: EncodedBlock[] = [];
    for (const result of lastResults(run)) {
      const block = resultBlock(result, this.ids, this.options);
      if (isFailure(block)) return block;
      results.push(block);
    }
    for (const turn of run) {
      if (isSystem(turn)) {
        if (apart) instructions.push(...systemBlocks(turn.parts));
        else said.push(...markedInstructions(turn.parts));
        continue;
      }
      for (const part of turn.parts) {
        const blocks = userBlocks(part, this.options);
        if (isFailure(blocks)) return blocks;
        said.push(...blocks);
      }
    }
    this.add("user", [...results, ...said]);
    if (this.messages.at(-1)?.role === "user") this.add("system", instructions);
    else this.add("user", instructions);
    return null;
  }

  /** A message without content is refused; without it, its neighbours may be of one role. */
  private add(role: EncodedMessage["role"], blocks: readonly EncodedBlock[]): void {
    if (blocks.length === 0) return;
    const last = this.messages.at(-1);
    if (last?.role === role) this.messages[this.messages.length - 1] = { role, blocks: [...last.blocks, ...blocks] };
    else this.messages.push({ role, blocks });
  }
}

/** Two results for one call are refused; the last one counts. */
function lastResults(run: readonly ConversationTurn[]): readonly ToolResultPart[] {
  const results = new Map<string | number, ToolResultPart>();
  for (const part of run.flatMap(({ parts }) => parts)) {
    if (part.kind === "tool_result") results.set(part.callId === "" ? results.size : part.callId, part);
  }
  return [...results.values()];
}

function markedInstructions(parts: readonly Part[]): readonly EncodedBlock[] {
  return parts.flatMap((part) =>
    part.kind === "text" && part.text.trim() !== "" ? textBlocks(`<system>\n${part.text}\n</system>`, part.cache) : [],
  );
}

/** The conversation is between calls and their results, and the answer with the calls does not begin with a thought. */
function callsUnthought(messages: readonly EncodedMessage[]): boolean {
  const answer = messages.findLast(({ role }) => role === "assistant");
  if (answer === undefined || !answer.blocks.some(({ json }) => json.startsWith(`{"type":"tool_use"`))) return false;
  const first = answer.blocks[0]?.json ?? "";
  return !first.startsWith(`{"type":"thinking"`) && !first.startsWith(`{"type":"redacted_thinking"`);
}

/** The API takes four markers. The last ones are worth most: what they mark includes all that comes before. */
function markersToKeep(blocks: readonly EncodedBlock[]): ReadonlySet<EncodedBlock> {
  return new Set(blocks.filter(({ cache }) => cache !== undefined).slice(-markersMax));
}

const markersMax = 4;

/** Other APIs cache by themselves what a client says that it will send again; this one has to be told where that ends. */
function markedAtEnd(messages: readonly EncodedMessage[]): readonly EncodedMessage[] {
  const last = messages.at(-1);
  const block = last?.blocks.at(-1);
  if (last === undefined || block === undefined || last.role === "assistant") return messages;
  return [...messages.slice(0, -1), { ...last, blocks: [...last.blocks.slice(0, -1), { ...block, cache: { ttl: null } }] }];
}

function marked(block: EncodedBlock, keep: ReadonlySet<EncodedBlock>): string {
  return keep.has(block) ? markedJson(block) : block.json;
}

function messageJson({ role, blocks }: EncodedMessage, keep: ReadonlySet<EncodedBlock>): string {
  return `{"role":"${role}","content":[${blocks.map((block) => marked(block, keep)).join(",")}]}`;
}

function encodeTool(tool: Tool, { schemas }: MessagesModel): EncodedBlock {
  const description = tool.custom === undefined ? tool.description : customDescription(tool);
  const isStrict = tool.strict === true && schemas && tool.custom === undefined;
  const schema = tool.custom === undefined ? inputSchema(tool.parameters) : customParameters;
  const json = JSON.stringify({
    name: wireName(tool),
    ...(description === null ? undefined : { description }),
    input_schema: isStrict ? outputSchema(schema) : schema,
    ...(isStrict ? { strict: true } : undefined),
  });
  return { json, cache: tool.cache };
}

/** A schema of an object; the API refuses any other. */
function inputSchema(parameters: JsonObject | null): JsonObject {
  if (parameters === null) return { type: "object", properties: {} };
  return parameters["type"] === "object" ? parameters : { ...parameters, type: "object" };
}

function encodeChoice(
  { toolChoice, parallelToolCalls, tools }: Conversation,
  { forcedTools }: MessagesModel,
  { parallelChoice }: AnthropicHost,
  dropped: Set<string>,
): unknown {
  const single = parallelToolCalls === false && toolChoice?.kind !== "none";
  if (single && !parallelChoice) dropped.add("parallel_tool_calls");
  if (toolChoice === null && !(single && parallelChoice)) return null;
  const isForced = toolChoice?.kind === "required" || toolChoice?.kind === "named";
  // All tools stay declared, so that the beginning of the conversation stays the same.
  if (isForced && !forcedTools) dropped.add("tool_choice");
  const choice = isForced && !forcedTools ? { type: "auto" } : choiceFields(toolChoice, tools);
  return single && parallelChoice ? { ...choice, disable_parallel_tool_use: true } : choice;
}

function choiceFields(choice: ToolChoice | null, tools: readonly Tool[]): Readonly<Record<string, unknown>> {
  switch (choice?.kind) {
    case undefined:
    case "auto":
      return { type: "auto" };
    case "none":
      return { type: "none" };
    case "required":
      return { type: "any" };
    case "named": {
      const tool = tools.find(({ name }) => name === choice.name);
      return { type: "tool", name: tool === undefined ? choice.name : wireName(tool) };
    }
  }
}

/** Where no schema can be enforced, the model is asked to keep to it. */
function formatInstruction(format: OutputFormat | null, { schemas }: MessagesModel): string | null {
  if (format?.kind === "json") return "Answer with one JSON object and nothing else: no explanation, and no Markdown around it.";
  if (format?.kind !== "schema" || schemas) return null;
  const schema = JSON.stringify(format.schema);
  return `Answer with JSON that matches this schema and with nothing else: no explanation, and no Markdown around it.\n${schema}`;
}

function outputConfig(format: OutputFormat | null, { schemas }: MessagesModel, { effort }: ThinkingFields): unknown {
  const schema = format?.kind === "schema" && schemas ? outputSchema(format.schema) : null;
  if (schema === null && effort === null) return null;
  return {
    ...(effort === null ? undefined : { effort }),
    ...(schema === null ? undefined : { format: { type: "json_schema", schema } }),
  };
}

/** Sampling is refused by the newer models, and by every model that thinks. */
export function encodeSampling(
  { sampling }: Conversation,
  facts: MessagesModel,
  { isOn }: ThinkingFields,
  dropped: Set<string>,
  set: (key: string, value: unknown) => void,
): void {
  const { temperature, topP, topK, presencePenalty, frequencyPenalty, seed } = sampling;
  const isTaken = facts.sampling && !isOn;
  const take = (key: string, value: number | null, taken: boolean, most = Infinity): void => {
    if (value === null) return;
    if (taken) set(key, Math.min(value, most));
    // Some clients always send what is meant without it.
    else if (value !== neutral[key]) dropped.add(key);
  };
  take("temperature", temperature, isTaken, temperatureMax);
  // The API takes one of the two.
  take("top_p", topP, isTaken && temperature === null);
  take("top_k", topK, isTaken);
  take("presence_penalty", presencePenalty, false);
  take("frequency_penalty", frequencyPenalty, false);
  take("seed", seed, false);
}

const temperatureMax = 1;
const neutral: Readonly<Record<string, number>> = { temperature: 1, top_p: 1, presence_penalty: 0, frequency_penalty: 0 };

function encodeTier(tier: string | null, dropped: Set<string>): string | null {
  if (tier === null || tier === "auto") return tier;
  if (tier === "default") return "standard_only";
  dropped.add("service_tier");
  return null;
}

function userId(name: string): string {
  return name.length <= userIdMax ? name : wireName({ name });
}

const userIdMax = 256;
const encoder = new TextEncoder();
