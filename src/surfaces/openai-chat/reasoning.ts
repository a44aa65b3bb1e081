import { sealedPrefix, type Part, type ProviderValue, type ReasoningPart } from "../../operations/conversation/conversation.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/**
 * The thoughts of an earlier answer: their text, under the names that several servers have for it, and what the gateway sealed in
 * `reasoning_details`. Values of others are left out: an upstream that speaks this API gets them in the client's own bytes, and no other
 * can read them.
 */
export function reasoningParts(message: JsonObject): readonly ReasoningPart[] {
  const listed = message["reasoning_details"];
  const details = Array.isArray(listed) ? (listed as readonly unknown[]).filter(isJsonObject) : [];
  const text = textOf(message["reasoning_content"]) || textOf(message["reasoning"]) || details.map(detailText).join("");
  const sealed = new Set(details.map(({ data }) => textOf(data)).filter(isSealed));
  return [
    ...(text === "" ? [] : [{ kind: "reasoning", text, signature: null } as const]),
    ...[...sealed].map((data): ReasoningPart => ({ kind: "reasoning", text: "", signature: sealedValue(data), redacted: true })),
  ];
}

function detailText({ text, summary }: JsonObject): string {
  return textOf(text) || textOf(summary);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isSealed(data: string): boolean {
  return data.startsWith(sealedPrefix);
}

function sealedValue(data: string): ProviderValue {
  return { dialect: "sluice", data };
}

/** The sealed signature of a call. It comes in the field that clients know from the one provider that signs calls, whose name is in it. */
export function callSignature(call: JsonObject): ProviderValue | null {
  const extra = call["extra_content"];
  const google = isJsonObject(extra) ? extra["google"] : null;
  const signature = isJsonObject(google) ? textOf(google["thought_signature"]) : "";
  return isSealed(signature) ? sealedValue(signature) : null;
}

export function callExtra(sealed: string): JsonObject {
  return { extra_content: { google: { thought_signature: sealed } } };
}

/** What only its provider understands of a part, for the client to carry; empty where there is nothing, or no way to seal it. */
export function sealedOf(part: Part, { seal }: AnswerContext): string {
  return seal?.(part) ?? "";
}

/** What is sealed of an answer, as clients know it from providers that show encrypted reasoning. */
export function reasoningDetails(sealed: readonly string[]): JsonObject | undefined {
  if (sealed.length === 0) return undefined;
  return { reasoning_details: sealed.map((data, index) => ({ type: "reasoning.encrypted", data, format: "sluice-v1", index })) };
}
