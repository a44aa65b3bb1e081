import type { FinishReason, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Part, ProviderValue, Tool, ToolCallPart } from "../../operations/conversation/conversation.ts";
import { unwrapCustomInput } from "../../operations/conversation/custom-input.ts";
import type { ToolNames } from "../../operations/conversation/tool-names.ts";
import type { Output } from "../../operations/emission.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { textOf } from "../untrusted.ts";

/** The name of this dialect, and so of the values that only it understands. */
export const dialectName = "gemini";

/** The parts of a candidate that are objects. */
export function partsOf(candidate: JsonObject): readonly JsonObject[] {
  const content = candidate["content"];
  const parts = isJsonObject(content) ? content["parts"] : undefined;
  return Array.isArray(parts) ? (parts as readonly unknown[]).filter(isJsonObject) : [];
}

export function candidatesOf(response: JsonObject): readonly JsonObject[] {
  const { candidates } = response;
  return Array.isArray(candidates) ? (candidates as readonly unknown[]).filter(isJsonObject) : [];
}

/** Why a prompt was not answered at all; null if it was. */
export function blockReasonOf(response: JsonObject): string | null {
  const feedback = response["promptFeedback"];
  return isJsonObject(feedback) && typeof feedback["blockReason"] === "string" ? feedback["blockReason"] : null;
}

export function indexOf({ index }: JsonObject): number {
  return typeof index === "number" && Number.isInteger(index) && index >= 0 && index < candidatesMax ? index : 0;
}

/** The API allows 8. A larger index is treated as the first candidate. */
const candidatesMax = 64;

/** What a part says; null if it says nothing that can be carried. */
export function partOf(part: JsonObject, names: ToolNames): Part | null {
  const signature = signatureOf(part);
  const call = part["functionCall"];
  if (isJsonObject(call)) {
    const name = textOf(call["name"]);
    const tool = names.toolOf(name);
    const args = isJsonObject(call["args"]) ? JSON.stringify(call["args"]) : "{}";
    return {
      kind: "tool_call",
      id: textOf(call["id"]),
      ...calledAs(tool, name),
      arguments: tool?.custom === undefined ? args : unwrapCustomInput(args),
      ...(signature === null ? undefined : { signature }),
    };
  }
  const text = outputTextOf(part);
  if (part["thought"] === true) return text === "" && signature === null ? null : { kind: "reasoning", text, signature };
  if (text === "" && signature === null) return null;
  return { kind: "text", text, ...(signature === null ? undefined : { signature }) };
}

export function signatureOf(part: JsonObject): ProviderValue | null {
  const data = textOf(part["thoughtSignature"]);
  return data === "" ? null : { dialect: dialectName, data };
}

/** What is made by tools of the upstream, or is no text, is shown as text: there is no other place for it in most APIs. */
function outputTextOf(part: JsonObject): string {
  if (typeof part["text"] === "string") return part["text"];
  const code = part["executableCode"];
  if (isJsonObject(code)) return fenced(textOf(code["language"]).toLowerCase(), textOf(code["code"]));
  const result = part["codeExecutionResult"];
  if (isJsonObject(result)) return fenced("", textOf(result["output"]));
  const media = part["inlineData"];
  if (!isJsonObject(media)) return "";
  const type = textOf(media["mimeType"]);
  return plainType.test(type) ? `![${type}](data:${type};base64,${textOf(media["data"])})` : "";
}

const plainType = /^[\w.+-]{1,64}\/[\w.+-]{1,64}$/;

function fenced(language: string, text: string): string {
  return text === "" ? "" : `\n\`\`\`${/^\w{1,20}$/.test(language) ? language : ""}\n${text}\n\`\`\`\n`;
}

/** The same as pieces of a stream. `index` numbers the calls of an answer. */
export function pieces(part: Part, index: number): readonly StreamPart[] {
  switch (part.kind) {
    case "text":
      return [
        ...(part.text === "" ? [] : [{ kind: "text", text: part.text } as const]),
        ...(part.signature === undefined ? [] : [{ kind: "text_signature", signature: part.signature } as const]),
      ];
    case "reasoning":
      return [
        ...(part.text === "" ? [] : [{ kind: "reasoning", text: part.text } as const]),
        ...(part.signature === null
          ? []
          : [{ kind: "reasoning_signature", signature: part.signature, redacted: part.text === "" } as const]),
      ];
    case "tool_call": {
      const { arguments: text, ...call } = part;
      return [
        { ...call, index },
        { kind: "tool_arguments", index, text },
      ];
    }
    default:
      return [];
  }
}

export function calledAs(tool: Tool | null, name: string): Pick<ToolCallPart, "name" | "namespace" | "custom" | "search"> {
  if (tool === null) return { name };
  return {
    name: tool.name,
    ...(tool.namespace === undefined ? undefined : { namespace: tool.namespace }),
    ...(tool.custom === undefined ? undefined : { custom: true as const }),
    ...(tool.search === undefined ? undefined : { search: tool.search }),
  };
}

/** What the gateway needs to know of parts that it passes on: the kind of output, the text of the answer, and the rest of what was written. */
export interface PartFacts {
  readonly output: Output | null;
  readonly text: string;
  readonly unsaid: string;
}

/** The rarer kinds first: parts with text and a call count as a call. */
export function factsOf(parts: readonly JsonObject[]): PartFacts {
  let text = "";
  let unsaid = "";
  let called = false;
  let thought = false;
  let media = false;
  for (const part of parts) {
    const call = part["functionCall"];
    if (isJsonObject(call)) {
      called = true;
      unsaid += textOf(call["name"]) + JSON.stringify(call["args"] ?? call["partialArgs"] ?? "");
    } else if (typeof part["text"] === "string") {
      if (part["thought"] === true) {
        thought ||= part["text"] !== "";
        unsaid += part["text"];
      } else text += part["text"];
    } else if (part["inlineData"] !== undefined) media = true;
    else unsaid += outputTextOf(part);
  }
  const written: Output | null = text !== "" || unsaid !== "" ? "text" : null;
  const output: Output | null = called ? "tool_call" : media ? "audio" : thought && text === "" ? "reasoning" : written;
  return { output, text, unsaid };
}

/** The default of the field, which says nothing: servers that write defaults send it in each event before the last. */
export const noReason = "FINISH_REASON_UNSPECIFIED";

/** Why a candidate of a stream has ended; empty if it goes on. */
export function endReasonOf(candidate: JsonObject | undefined): string {
  const stated = textOf(candidate?.["finishReason"]);
  return stated === noReason ? "" : stated;
}

/** The reason in the words of the model. `failed`: the model did not manage to make an answer. */
export function finishOf(reason: string, hasCalls: boolean): FinishReason | "failed" {
  if (reason === "MAX_TOKENS" || reason === "CONTINUATION") return "length";
  if (refused.has(reason)) return "content_filter";
  if (failed.has(reason)) return "failed";
  // The API has no reason of its own for calls.
  return hasCalls ? "tool_calls" : "stop";
}

const refused: ReadonlySet<string> = new Set([
  ...["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"],
  ...["IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"],
]);
const failed: ReadonlySet<string> = new Set([
  ...["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"],
  // They do not say that the answer is all there, as STOP does: https://ai.google.dev/api/generate-content#FinishReason.
  ...[noReason, "OTHER", "IMAGE_OTHER", "NO_IMAGE"],
]);
