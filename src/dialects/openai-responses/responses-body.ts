import { customDescription } from "../../operations/conversation/custom-input.ts";
import {
  webSearchField,
  type Conversation,
  type ConversationTurn,
  type FilePart,
  type ImagePart,
  type OutputFormat,
  type Part,
  type ReasoningPart,
  type ReasoningRequest,
  type Tool,
  type ToolCallPart,
  type ToolChoice,
  type ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { encryptsReasoning, ownValues, takesReasoningText } from "./models.ts";

export interface ResponsesBody {
  readonly body: Uint8Array;
  readonly dropped: readonly string[];
}

export interface ResponsesBodyOptions {
  readonly model: string;
  readonly maxOutputTokens: number | null;
}

/**
 * A conversation as the body of a request to the Responses API. The upstream stores nothing, so everything that it needs stands in the
 * body. Each turn is encoded by itself, so that a conversation that goes on begins with the same items: prompt caches depend on it. A
 * failure names content that the API cannot carry.
 */
export function encodeResponsesBody(conversation: Conversation, { model, maxOutputTokens }: ResponsesBodyOptions): ResponsesBody | Failure {
  const unreadable = unreadableIn(conversation);
  if (unreadable !== null) return unreadable;
  const dropped = new Set(conversation.uncarried);
  const items = new ItemWriter(dropped, takesReasoningText(model));
  for (const turn of conversation.turns) items.turn(turn);
  const { sampling, tools, toolChoice, parallelToolCalls, outputFormat, verbosity } = conversation;
  for (const [name, value] of lostSampling(conversation)) if (value) dropped.add(name);
  const body: Record<string, unknown> = { model, input: items.items };
  const search = searchTool(conversation, dropped);
  if (tools.length > 0 || search.length > 0) {
    body["tools"] = [...encodeTools(tools), ...search];
  }
  if (tools.length > 0) {
    if (toolChoice !== null) body["tool_choice"] = encodeToolChoice(toolChoice, tools);
    if (parallelToolCalls !== null) body["parallel_tool_calls"] = parallelToolCalls;
  }
  if (outputFormat !== null || verbosity !== null) {
    body["text"] = { ...(outputFormat === null ? undefined : { format: encodeFormat(outputFormat) }), ...given({ verbosity }) };
  }
  const reasoning = encodeReasoning(conversation.reasoning);
  if (reasoning !== null) body["reasoning"] = reasoning;
  if (maxOutputTokens !== null) body["max_output_tokens"] = Math.max(outputTokensMin, maxOutputTokens);
  Object.assign(
    body,
    given({
      temperature: sampling.temperature,
      top_p: sampling.topP,
      prompt_cache_key: conversation.promptCacheKey,
      service_tier: conversation.serviceTier,
      safety_identifier: conversation.endUser === null ? null : shortName(conversation.endUser),
    }),
  );
  body["store"] = false;
  if (encryptsReasoning(model)) body["include"] = ["reasoning.encrypted_content"];
  if (conversation.stream) body["stream"] = true;
  return { body: encoder.encode(JSON.stringify(body)), dropped: [...dropped] };
}

/** The fields that have a value. */
function given(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function searchTool({ webSearch }: Conversation, dropped: Set<string>): readonly InputItem[] {
  if (webSearch === undefined) return [];
  dropped.delete(webSearchField);
  const { location, contextSize } = webSearch;
  const place = location === null ? null : { type: "approximate", ...location };
  return [{ type: "web_search", ...given({ search_context_size: contextSize, user_location: place }) }];
}

/** What the API has no field for, by the names of the other APIs. */
function lostSampling({ sampling, stop }: Conversation): readonly (readonly [name: string, isAsked: boolean])[] {
  return [
    ["top_k", sampling.topK !== null],
    ["presence_penalty", (sampling.presencePenalty ?? 0) !== 0],
    ["frequency_penalty", (sampling.frequencyPenalty ?? 0) !== 0],
    ["seed", sampling.seed !== null],
    ["logprobs", sampling.topLogprobs !== null],
    ["stop", stop.length > 0],
  ];
}

type InputItem = Readonly<Record<string, unknown>>;

/** Writes the items of a conversation, turn by turn. What is written of a turn depends on it and on those before it alone. */
class ItemWriter {
  readonly items: InputItem[] = [];
  /** The calls of custom tools: their results are items of another type. */
  private readonly customCalls = new Set<string>();

  constructor(
    private readonly dropped: Set<string>,
    private readonly takesText: boolean,
  ) {}

  turn({ role, parts }: ConversationTurn): void {
    switch (role) {
      case "system":
      case "developer":
      case "user": {
        const content = parts.map(encodeContent).filter((part) => part !== null);
        if (content.length > 0) this.items.push({ type: "message", role, content });
        else if (role === "user") this.items.push({ type: "message", role, content: [{ type: "input_text", text: "" }] });
        return;
      }
      case "assistant":
        return this.answer(parts);
      case "tool":
        return this.results(parts);
    }
  }

  /** Thoughts, words and calls are items of their own, in their order. Words that follow one another are one message. */
  private answer(parts: readonly Part[]): void {
    let words: unknown[] = [];
    const endWords = (): void => {
      if (words.length > 0) this.items.push({ type: "message", role: "assistant", content: words });
      words = [];
    };
    for (const part of parts) {
      if (part.kind === "text") {
        if (part.text !== "") words.push({ type: "output_text", text: part.text, annotations: [] });
        continue;
      }
      if (part.kind === "refusal") {
        words.push({ type: "refusal", refusal: part.text });
        continue;
      }
      endWords();
      if (part.kind === "reasoning") this.thought(part);
      else if (part.kind === "tool_call") this.call(part);
      else this.dropped.add(`assistant ${part.kind}`);
    }
    endWords();
  }

  /** Only what this API has encrypted itself is sent back: it takes no other reasoning, unless the model's is open. */
  private thought({ text, summary: isSummary, signature }: ReasoningPart): void {
    if (this.takesText && signature === null && isSummary !== true && text !== "") {
      // Servers of such models want an id, which stays the same from turn to turn.
      const id = `rs_${this.items.length}`;
      return void this.items.push({ type: "reasoning", id, summary: [], content: [{ type: "reasoning_text", text }] });
    }
    if (signature?.dialect !== ownValues) return;
    const summary = text === "" ? [] : [{ type: "summary_text", text }];
    this.items.push({ type: "reasoning", summary, encrypted_content: signature.data });
  }

  private call(part: ToolCallPart): void {
    const { id, namespace } = part;
    const named = { call_id: shortName(id), name: wireName({ name: part.name }), ...(namespace === undefined ? undefined : { namespace }) };
    if (part.custom === true) {
      this.customCalls.add(id);
      this.items.push({ type: "custom_tool_call", ...named, input: part.arguments });
    } else {
      this.items.push({ type: "function_call", ...named, arguments: part.arguments.trim() === "" ? "{}" : part.arguments });
    }
  }

  private results(parts: readonly Part[]): void {
    // Two results for one call are refused; the last one counts.
    const results = new Map<string, ToolResultPart>();
    for (const part of parts) if (part.kind === "tool_result") results.set(part.callId, part);
    for (const result of results.values()) {
      const type = this.customCalls.has(result.callId) ? "custom_tool_call_output" : "function_call_output";
      this.items.push({ type, call_id: shortName(result.callId), output: encodeOutput(result) });
    }
  }
}

/** A text where there is nothing else, which every upstream takes; else content like that of a message. */
function encodeOutput({ content, isError }: ToolResultPart): string | readonly unknown[] {
  const lead = isError ? "Error: " : "";
  const texts = content.map((part) => (part.kind === "text" ? part.text : null));
  if (texts.every((text) => text !== null)) return lead + texts.join("\n");
  const parts = content.map(encodeContent).filter((part) => part !== null);
  return isError ? [{ type: "input_text", text: "Error:" }, ...parts] : parts;
}

function encodeContent(part: Part): InputItem | null {
  switch (part.kind) {
    case "text":
      return part.text === "" ? null : { type: "input_text", text: part.text };
    case "image":
      return encodeImage(part);
    case "file":
      return encodeFile(part);
    default:
      return null;
  }
}

function encodeImage({ source, detail = "auto" }: ImagePart): InputItem | null {
  switch (source.kind) {
    case "data":
      return { type: "input_image", image_url: `data:${source.mediaType};base64,${source.data}`, detail };
    case "url":
      return { type: "input_image", image_url: source.url, detail };
    case "id":
      return { type: "input_image", file_id: source.id, detail };
    case "text":
      return null;
  }
}

function encodeFile({ source, name }: FilePart): InputItem {
  switch (source.kind) {
    case "data":
      return { type: "input_file", filename: name ?? "file", file_data: `data:${source.mediaType};base64,${source.data}` };
    case "url":
      return { type: "input_file", file_url: source.url };
    case "id":
      return { type: "input_file", file_id: source.id };
    case "text":
      return { type: "input_text", text: name === null ? source.text : `${name}:\n\n${source.text}` };
  }
}

/** Content that the API has no way to carry. Another channel may be able to. */
function unreadableIn({ turns }: Conversation): Failure | null {
  for (const { parts } of turns) {
    for (const part of parts) {
      for (const one of part.kind === "tool_result" ? part.content : [part]) {
        if (one.kind === "audio") return noAudio;
        if (one.kind === "image" && one.source.kind === "text") return noTextImage;
      }
    }
  }
  return null;
}

const noAudio = failure("unsupported", "the upstream takes no audio in this API", { message: "This model takes no audio as input." });
const noTextImage = failure("unsupported", "an image is given as text", { message: "This model takes images by URL or as base64 data." });

/** Tools of one namespace are declared together, at the place of the first of them. */
function encodeTools(tools: readonly Tool[]): readonly unknown[] {
  const encoded: unknown[] = [];
  const namespaces = new Map<string, unknown[]>();
  for (const tool of tools) {
    const { namespace } = tool;
    if (namespace === undefined) {
      encoded.push(encodeTool(tool));
      continue;
    }
    const known = namespaces.get(namespace);
    if (known !== undefined) {
      known.push(encodeTool(tool));
      continue;
    }
    const inner = [encodeTool(tool)];
    namespaces.set(namespace, inner);
    encoded.push({ type: "namespace", name: namespace, description: tool.namespaceDescription ?? `Tools of ${namespace}.`, tools: inner });
  }
  return encoded;
}

function encodeTool(tool: Tool): unknown {
  const { custom } = tool;
  const name = wireName({ name: tool.name });
  if (custom === undefined) {
    return {
      type: "function",
      name,
      ...given({ description: tool.description }),
      parameters: tool.parameters ?? { type: "object", properties: {} },
      // Without a word, this API is strict where the others are not.
      strict: tool.strict ?? false,
    };
  }
  const { format, syntax } = custom;
  // A grammar whose syntax is not known can only be described.
  if (format === null || syntax === undefined) return { type: "custom", name, ...given({ description: customDescription(tool) }) };
  return { type: "custom", name, ...given({ description: tool.description }), format: { type: "grammar", syntax, definition: format } };
}

function encodeToolChoice(choice: ToolChoice, tools: readonly Tool[]): unknown {
  if (choice.kind !== "named") return choice.kind;
  const tool = tools.find(({ name }) => name === choice.name);
  return { type: tool?.custom === undefined ? "function" : "custom", name: wireName({ name: choice.name }) };
}

function encodeFormat(format: OutputFormat): unknown {
  switch (format.kind) {
    case "text":
      return { type: "text" };
    case "json":
      return { type: "json_object" };
    case "schema": {
      const { name, description, schema, strict } = format;
      return { type: "json_schema", name: name ?? "structured_output", ...given({ description }), schema, strict: strict ?? false };
    }
  }
}

function encodeReasoning(reasoning: ReasoningRequest | null): InputItem | null {
  if (reasoning === null) return null;
  const effort = reasoning.effort ?? effortOf(reasoning.budgetTokens);
  const { summary } = reasoning;
  const shown = summary === null || summary === "none" ? null : summaries.has(summary) ? summary : "auto";
  return effort === null && shown === null ? null : given({ effort, summary: shown });
}

const summaries: ReadonlySet<string> = new Set(["auto", "concise", "detailed"]);

/** The API has levels and no budgets: a budget is the level that is commonly given so many tokens. */
function effortOf(budgetTokens: number | null): string | null {
  if (budgetTokens === null) return null;
  if (budgetTokens < 4096) return "low";
  return budgetTokens < 16_384 ? "medium" : "high";
}

/** The API takes 64 characters in ids and names of users; some clients send more. */
function shortName(name: string): string {
  return name.length <= nameMax ? name : wireName({ name });
}

const nameMax = 64;
/** A smaller number is refused. */
const outputTokensMin = 16;
const encoder = new TextEncoder();
