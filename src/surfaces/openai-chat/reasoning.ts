import { returnedValue, type Part, type ProviderValue, type ReasoningPart } from "../../operations/conversation/conversation.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/** Whose values come back through this API, unless they are the gateway's own. */
export const ownDialect = "openai";

/**
 * The thoughts of an earlier answer: `reasoning_content` (some servers call it `reasoning`) is their text, and `reasoning_details` are the
 * same with what their provider needs to believe them its own.
 */
export function reasoningParts(message: JsonObject): readonly ReasoningPart[] {
  const details = message["reasoning_details"];
  const parts = Array.isArray(details) ? detailedParts(details as readonly unknown[]) : [];
  const text = textOf(message["reasoning_content"]) || textOf(message["reasoning"]);
  const isDetailed = parts.some((part) => part.text !== "");
  return text === "" || isDetailed ? parts : [{ kind: "reasoning", text, signature: null }, ...parts];
}

/** Some clients keep the pieces of a stream as they came: those of one thought follow one another, and its signature is in the last. */
function detailedParts(details: readonly unknown[]): readonly ReasoningPart[] {
  const parts: ReasoningPart[] = [];
  let goesOn = false;
  for (const detail of details) {
    const part = isJsonObject(detail) ? detailedPart(detail) : null;
    if (part === null) continue;
    const last = parts.at(-1);
    if (goesOn && last !== undefined && part.redacted !== true && last.summary === part.summary) {
      parts[parts.length - 1] = { ...part, text: last.text + part.text };
    } else parts.push(part);
    goesOn = part.redacted !== true && part.signature === null;
  }
  return parts.filter(({ text, signature }) => text !== "" || signature !== null);
}

function detailedPart(detail: JsonObject): ReasoningPart | null {
  switch (detail["type"]) {
    case "reasoning.text":
      return { kind: "reasoning", text: textOf(detail["text"]), signature: valueOf(detail["signature"]) };
    case "reasoning.summary":
      return { kind: "reasoning", text: textOf(detail["summary"]), summary: true, signature: valueOf(detail["signature"]) };
    case "reasoning.encrypted": {
      const signature = valueOf(detail["data"]);
      return signature === null ? null : { kind: "reasoning", text: "", signature, redacted: true };
    }
    default:
      return null;
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function valueOf(value: unknown): ProviderValue | null {
  return typeof value === "string" && value !== "" ? returnedValue(value, ownDialect) : null;
}

/** The signature of a call, which clients know from the one provider that makes some; its name is a part of the field's. */
export function callSignature(call: JsonObject): ProviderValue | null {
  const extra = call["extra_content"];
  const own = isJsonObject(extra) ? extra["google"] : null;
  return isJsonObject(own) ? valueOf(own["thought_signature"]) : null;
}

export function callExtra(signature: string): JsonObject {
  return { extra_content: { google: { thought_signature: signature } } };
}

/**
 * A thought for `reasoning_details`; null where nobody signed it, and the text alone is enough. The text is repeated here, although it was
 * sent as `reasoning_content`: a signature is worth nothing without it, and the official client keeps only the last piece of a field that
 * it does not know.
 */
export function reasoningDetail(part: ReasoningPart, index: number, context: AnswerContext): JsonObject | null {
  const signature = signatureText(part.signature, part, context);
  if (signature === "") return null;
  const place = { format: detailFormat, index };
  if (part.redacted === true) return { type: "reasoning.encrypted", data: signature, ...place };
  if (part.summary === true) return { type: "reasoning.summary", summary: part.text, signature, ...place };
  return { type: "reasoning.text", text: part.text, signature, ...place };
}

const detailFormat = "sluice-v1";

/** What goes to the client for a value that only its provider understands. Empty where it cannot be carried: it is never made up. */
export function signatureText(value: ProviderValue | null, part: Part, { seal }: AnswerContext): string {
  if (value === null) return "";
  if (value.dialect === ownDialect || value.dialect === "sluice") return value.data;
  return seal === null ? "" : seal(part);
}
