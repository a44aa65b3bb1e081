import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { elementsOf, membersOf, scanJson, valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { bodyMistake, missing, mistake, modelMistake, wrongType } from "../../operations/mistakes.ts";
import { generateConversation } from "./conversation.ts";
import { camelCase, member, membersNamed } from "./names.ts";
import { numberIn } from "./numbers.ts";
import { promptTokens } from "./prompt-tokens.ts";

/** What the path of a request says. */
export interface GeneratePath {
  readonly model: string;
  readonly stream: boolean;
  /** The stream is a list of responses instead of events: it is written anew, whatever the upstream speaks. */
  readonly listed: boolean;
}

/** Reads a request to `generateContent` or `streamGenerateContent`: the facts the gateway decides on, or what the client can fix. */
export function readGenerateRequest(body: Uint8Array, { model, stream, listed }: GeneratePath): ChatRequest | Failure {
  const unnamable = modelMistake(model);
  if (unnamable !== null) return unnamable;
  const document = scanJson(body);
  const unreadable = bodyMistake(document);
  if (unreadable !== null || !document.ok) return unreadable!;
  const { members } = document;

  const contents = member(members, "contents");
  if (contents === undefined) return missing("contents");
  if (contents.kind !== "array") return wrongType("contents", "an array");
  if (contents.empty) return mistake("'contents' must hold at least one content.", "empty_array", "contents");
  const another = otherModel(body, members, model);
  if (another !== null) return another;

  const asked = configIn(body, members);
  if (isFailure(asked)) return asked;
  const tools = toolsIn(body, member(members, "tools"));
  if (isFailure(tools)) return tools;
  return {
    operation: "chat",
    surface: listed ? null : "gemini",
    toConversation: generateConversation,
    body,
    document,
    members,
    model,
    stream,
    wantsUsage: true,
    maxTokens: asked.maxTokens,
    maxCompletionTokens: null,
    choices: asked.choices,
    hostedTools: tools.hosted,
    reasons: asked.reasons,
    plainText: asked.isPlain && !tools.any && asked.choices === 1,
    promptTokensEstimate: promptTokens(body, members),
  };
}

/** The path names the model. A body may repeat it, and must not contradict. */
function otherModel(body: Uint8Array, members: readonly JsonMember[], model: string): Failure | null {
  for (const named of membersNamed(members, "model")) {
    if (named.kind !== "string") return wrongType("model", "a string");
    const name = valueOf(body, named) as string;
    if (name !== model && name !== `models/${model}`) {
      return mistake("'model' is another one than that of the URL.", "invalid_value", "model");
    }
  }
  return null;
}

interface AskedConfig {
  readonly maxTokens: number | null;
  readonly choices: number;
  readonly reasons: boolean;
  /** Nothing asks for anything but text. */
  readonly isPlain: boolean;
}

/** Where a number is repeated an upstream may read either, and the largest counts. */
function configIn(body: Uint8Array, members: readonly JsonMember[]): AskedConfig | Failure {
  let maxTokens: number | null = null;
  let choices = 1;
  let reasons = false;
  let isPlain = true;
  for (const config of membersNamed(members, "generationConfig")) {
    if (config.kind !== "object") return wrongType("generationConfig", "an object");
    const fields = membersOf(body, config.start, config.end);
    for (const field of fields) {
      const name = camelCase(field.key);
      if (field.kind === "null") continue;
      if (name === "maxOutputTokens" || name === "candidateCount") {
        const count = wholeNumber(body, field);
        if (count === null) return wrongType(`generationConfig.${name}`, "a whole number");
        if (name === "maxOutputTokens") maxTokens = Math.max(maxTokens ?? 0, count);
        else choices = Math.max(choices, count);
      }
      if (name === "thinkingConfig" && field.kind === "object") reasons = asksToReason(body, field);
      if (shapes.has(name)) isPlain = false;
    }
    const excess = stopsExcess(body, member(fields, "stopSequences"));
    if (excess !== null) return excess;
  }
  return { maxTokens, choices, reasons, isPlain };
}

/** Fields that make the answer something other than plain text. */
const shapes: ReadonlySet<string> = new Set([
  ...["responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities", "responseLogprobs", "speechConfig", "imageConfig"],
]);

/** Some clients write whole numbers as strings, and the API accepts them. */
function wholeNumber(body: Uint8Array, field: JsonMember): number | null {
  const value = numberIn(valueOf(body, field));
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}

function asksToReason(body: Uint8Array, config: JsonMember): boolean {
  const fields = membersOf(body, config.start, config.end);
  const budget = member(fields, "thinkingBudget");
  if (budget?.kind === "number" || budget?.kind === "string") return numberIn(valueOf(body, budget)) !== 0;
  return member(fields, "thinkingLevel") !== undefined;
}

function stopsExcess(body: Uint8Array, stops: JsonMember | undefined): Failure | null {
  if (stops === undefined) return null;
  const param = "generationConfig.stopSequences";
  if (stops.kind !== "array") return wrongType(param, "an array");
  if (stops.end - stops.start > stopBytesMax) {
    return mistake(`'${param}' is longer than ${stopBytesMax / 1024} KiB.`, "string_above_max_length", param);
  }
  const count = elementsOf(body, stops.start, stops.end).length;
  return count <= stopsMax ? null : tooMany(param, count, stopsMax);
}

interface AskedTools {
  readonly any: boolean;
  /** Some run at the upstream. */
  readonly hosted: boolean;
}

/** An element of the list declares functions, or is a tool of the upstream. */
function toolsIn(body: Uint8Array, tools: JsonMember | undefined): AskedTools | Failure {
  if (tools === undefined) return { any: false, hosted: false };
  if (tools.kind !== "array") return wrongType("tools", "an array");
  const elements = elementsOf(body, tools.start, tools.end);
  let declared = 0;
  let hosted = false;
  for (const element of elements) {
    if (element.kind !== "object") return wrongType("tools", "an array of objects");
    for (const field of membersOf(body, element.start, element.end)) {
      if (field.kind === "null") continue;
      if (camelCase(field.key) !== "functionDeclarations") hosted = true;
      else declared += countOf(body, field);
    }
  }
  const count = Math.max(elements.length, declared);
  return count > toolsMax ? tooMany("tools", count, toolsMax) : { any: elements.length > 0, hosted };
}

function countOf(body: Uint8Array, list: JsonSpan): number {
  return list.kind === "array" ? elementsOf(body, list.start, list.end).length : 1;
}

function tooMany(param: string, count: number, max: number): Failure {
  return mistake(`'${param}' has ${count} elements, and may have ${max}.`, "array_above_max_length", param);
}

/** The same bounds as for chat completions: an upstream looks for every stop sequence at every token. */
const stopsMax = 256;
const stopBytesMax = 64 * 1024;
const toolsMax = 1024;
