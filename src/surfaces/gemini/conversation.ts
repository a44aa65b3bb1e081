import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type {
  Conversation,
  OutputFormat,
  ReasoningEffort,
  ReasoningRequest,
  Tool,
  ToolChoice,
} from "../../operations/conversation/conversation.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { mistake } from "../../operations/mistakes.ts";
import { FieldReader } from "../field-reader.ts";
import { Uncarried } from "../uncarried.ts";
import { GenerateContentReader } from "./content.ts";
import { camelCase, value } from "./names.ts";
import { numberIn } from "./numbers.ts";
import { jsonSchema } from "./schema.ts";

/** The whole request as a conversation. Its body was scanned before, so that its depth and its number of values are bounded. */
export function generateConversation(request: ChatRequest): Conversation | Failure {
  const body = JSON.parse(decoder.decode(request.body.subarray(request.document.start, request.document.end))) as JsonObject;
  // Without what only its provider has stored, the model would be asked something else.
  if (value(body, "cachedContent") != null) return storedElsewhere;
  const fields = new FieldReader();
  const uncarried = new Uncarried();
  note(body, carried, "", uncarried);
  const config = fields.optionalObject(value(body, "generationConfig"), "generationConfig") ?? {};
  note(config, carriedConfig, "generationConfig.", uncarried);
  if (request.choices > 1) uncarried.add("generationConfig.candidateCount");

  const contents = fields.list(value(body, "contents"), "contents");
  const turns = new GenerateContentReader(fields, uncarried).read(value(body, "systemInstruction"), contents);
  const tools = toolsOf(fields.optionalList(value(body, "tools"), "tools"), fields, uncarried);
  const number = (name: string): number | null => fields.optionalNumber(numberIn(value(config, name)), `generationConfig.${name}`);
  const conversation: Conversation = {
    turns,
    tools,
    toolChoice: choiceOf(fields.optionalObject(value(body, "toolConfig"), "toolConfig"), tools, fields, uncarried),
    parallelToolCalls: null,
    outputFormat: formatOf(config, fields, uncarried),
    sampling: {
      temperature: number("temperature"),
      topP: number("topP"),
      topK: number("topK"),
      presencePenalty: number("presencePenalty"),
      frequencyPenalty: number("frequencyPenalty"),
      seed: number("seed"),
      topLogprobs: null,
    },
    reasoning: reasoningOf(fields.optionalObject(value(config, "thinkingConfig"), "generationConfig.thinkingConfig"), fields),
    maxOutputTokens: request.maxTokens,
    stop: fields
      .optionalList(value(config, "stopSequences"), "generationConfig.stopSequences")
      .map((stop, index) => fields.text(stop, `generationConfig.stopSequences.${index}`)),
    stream: request.stream,
    endUser: null,
    promptCacheKey: null,
    serviceTier: tierOf(fields.optionalText(value(body, "serviceTier"), "serviceTier")),
    verbosity: null,
    uncarried: uncarried.names,
  };
  if (fields.mistake === null && turns.length === 0) {
    return mistake("'contents' must hold at least one content with parts.", "empty_array", "contents");
  }
  return fields.mistake ?? conversation;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

const storedElsewhere = failure("unsupported", "the request refers to stored content", {
  message: "'cachedContent' is stored at another provider than that of this model.",
  param: "cachedContent",
});

/** The fields that the conversation has, in one way or another. */
const carried: ReadonlySet<string> = new Set([
  ...["model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "serviceTier"],
]);

const carriedConfig: ReadonlySet<string> = new Set([
  ...["temperature", "topP", "topK", "presencePenalty", "frequencyPenalty", "seed", "maxOutputTokens", "stopSequences", "candidateCount"],
  ...["responseMimeType", "responseSchema", "responseJsonSchema", "thinkingConfig"],
]);

function note(object: JsonObject, known: ReadonlySet<string>, prefix: string, uncarried: Uncarried): void {
  for (const key of Object.keys(object)) {
    if (object[key] !== null && !known.has(camelCase(key)) && !isUsual(camelCase(key), object[key])) uncarried.add(prefix + camelCase(key));
  }
}

/** What is asked for is what is given anyway. */
function isUsual(name: string, asked: unknown): boolean {
  return name === "responseModalities" && Array.isArray(asked) && asked.every((one) => one === "TEXT");
}

function toolsOf(values: readonly unknown[], fields: FieldReader, uncarried: Uncarried): readonly Tool[] {
  const tools: Tool[] = [];
  for (const [index, element] of values.entries()) {
    const path = `tools.${index}`;
    const tool = fields.object(element, path);
    for (const key of Object.keys(tool)) {
      const name = camelCase(key);
      if (name !== "functionDeclarations") uncarried.add(`tools.${name}`);
      else
        for (const [at, one] of declarations(tool[key], path, fields)) tools.push(toolOf(one, `${path}.${name}.${at}`, fields, uncarried));
    }
    if (fields.mistake !== null) break;
  }
  return tools;
}

function declarations(list: unknown, path: string, fields: FieldReader): Iterable<readonly [number, unknown]> {
  return fields.optionalList(isJsonObject(list) ? [list] : list, `${path}.functionDeclarations`).entries();
}

function toolOf(declaration: unknown, path: string, fields: FieldReader, uncarried: Uncarried): Tool {
  const tool = fields.object(declaration, path);
  for (const hint of ["response", "responseJsonSchema", "behavior"]) if (value(tool, hint) != null) uncarried.add(`tools.${hint}`);
  const plain = fields.optionalObject(value(tool, "parametersJsonSchema"), `${path}.parametersJsonSchema`);
  const own = fields.optionalObject(value(tool, "parameters"), `${path}.parameters`);
  return {
    name: fields.name(value(tool, "name"), `${path}.name`),
    description: fields.optionalText(value(tool, "description"), `${path}.description`),
    parameters: plain ?? (own === null ? { type: "object", properties: {} } : jsonSchema(own)),
    strict: null,
  };
}

function choiceOf(config: JsonObject | null, tools: readonly Tool[], fields: FieldReader, uncarried: Uncarried): ToolChoice | null {
  if (config === null) return null;
  note(config, new Set(["functionCallingConfig"]), "toolConfig.", uncarried);
  const calling = fields.optionalObject(value(config, "functionCallingConfig"), "toolConfig.functionCallingConfig");
  if (calling === null || tools.length === 0) return null;
  const path = "toolConfig.functionCallingConfig";
  const mode = fields.optionalText(value(calling, "mode"), `${path}.mode`)?.toUpperCase() ?? "AUTO";
  const allowed = fields
    .optionalList(value(calling, "allowedFunctionNames"), `${path}.allowedFunctionNames`)
    .map((name, index) => fields.text(name, `${path}.allowedFunctionNames.${index}`));
  switch (mode) {
    case "NONE":
      return { kind: "none" };
    case "ANY": {
      const [only, ...others] = allowed;
      if (only !== undefined && others.length === 0) return { kind: "named", name: only };
      if (allowed.length > 0) uncarried.add(`${path}.allowedFunctionNames`);
      return { kind: "required" };
    }
    case "AUTO":
    case "VALIDATED":
    case "MODE_UNSPECIFIED":
      if (allowed.length > 0) uncarried.add(`${path}.allowedFunctionNames`);
      return { kind: "auto" };
    default:
      fields.invalid(`${path}.mode`, `'${path}.mode' must be one of: AUTO, ANY, NONE, VALIDATED.`);
      return null;
  }
}

function formatOf(config: JsonObject, fields: FieldReader, uncarried: Uncarried): OutputFormat | null {
  const type = fields.optionalText(value(config, "responseMimeType"), "generationConfig.responseMimeType") ?? "text/plain";
  const plain = fields.optionalObject(value(config, "responseJsonSchema"), "generationConfig.responseJsonSchema");
  const own = fields.optionalObject(value(config, "responseSchema"), "generationConfig.responseSchema");
  if (type !== "application/json") {
    if (type !== "text/plain") uncarried.add("generationConfig.responseMimeType");
    return null;
  }
  const schema = plain ?? (own === null ? null : jsonSchema(own));
  if (schema === null) return { kind: "json" };
  return { kind: "schema", name: "structured_output", description: null, schema, strict: null };
}

const levels: ReadonlyMap<string, ReasoningEffort> = new Map([
  ["minimal", "minimal"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
]);

/** A budget of -1 leaves it to the model. */
function reasoningOf(config: JsonObject | null, fields: FieldReader): ReasoningRequest | null {
  if (config === null) return null;
  const path = "generationConfig.thinkingConfig";
  const budget = fields.optionalNumber(numberIn(value(config, "thinkingBudget")), `${path}.thinkingBudget`);
  const level = fields.optionalText(value(config, "thinkingLevel"), `${path}.thinkingLevel`)?.toLowerCase() ?? null;
  const shown = fields.optionalBoolean(value(config, "includeThoughts"), `${path}.includeThoughts`);
  const summary = shown === null ? null : shown ? "auto" : "none";
  if (budget === 0) return { effort: "none", budgetTokens: null, summary: null };
  return {
    effort: level === null ? null : (levels.get(level) ?? null),
    budgetTokens: budget === null || budget < 0 ? null : budget,
    summary,
  };
}

function tierOf(tier: string | null): string | null {
  const name = tier?.toLowerCase().replace(/^service_tier_/, "") ?? null;
  return name === "standard" || name === "unspecified" ? "default" : name;
}
