import type { ChatAnswer, Finish } from "../../operations/conversation/answer-parts.ts";
import {
  sealedBase64Prefix,
  type Part,
  type ProviderValue,
  type ReasoningPart,
  type TextPart,
  type ToolCallPart,
} from "../../operations/conversation/conversation.ts";
import { wrapCustomInput } from "../../operations/conversation/custom-input.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { textToBase64 } from "./base64.ts";
import { ownDialect } from "./content.ts";

/** The body of a complete answer. */
export function responseBody(answer: ChatAnswer, context: AnswerContext): Uint8Array {
  const { parts, finish, usage } = answer;
  let calls = 0;
  const thoughts = new CarriedThoughts();
  const written = parts.flatMap((part) => {
    const json = partJson(part, part.kind === "tool_call" ? calls++ : 0, context);
    return part.kind === "tool_call" ? json.map((call) => thoughts.on(call)) : thoughts.note(part, json);
  });
  const isRefused = parts.some(({ kind }) => kind === "refusal");
  const response = responseOf(written, answer.model, context, {
    finishReason: finishReason(finish, isRefused),
    usage: usageMetadata(usage, context, charactersIn(parts)),
  });
  return encoder.encode(JSON.stringify(response));
}

const encoder = new TextEncoder();

/** How a response ends the answer. */
export interface ResponseEnd {
  readonly finishReason: string;
  readonly usage: JsonObject;
}

export function responseOf(
  parts: readonly JsonObject[],
  model: string | null,
  context: AnswerContext,
  end: ResponseEnd | null,
): JsonObject {
  return {
    candidates: [
      {
        content: { parts: parts.length === 0 ? [{ text: "" }] : parts, role: "model" },
        ...(end === null ? undefined : { finishReason: end.finishReason }),
        index: 0,
      },
    ],
    ...(end === null ? undefined : { usageMetadata: end.usage }),
    modelVersion: model ?? context.request.model,
    responseId: context.idSeed,
  };
}

/** `index` numbers the calls of the answer. */
function partJson(part: Part, index: number, context: AnswerContext): readonly JsonObject[] {
  switch (part.kind) {
    case "text":
      return textJson(part, context);
    case "refusal":
      return part.text === "" ? [] : [{ text: part.text }];
    case "reasoning":
      return thoughtJson(part, context);
    case "tool_call":
      return [callJson(part, index, context)];
    // A model that is asked for text makes none of these.
    case "image":
    case "audio":
    case "file":
    case "tool_result":
      return [];
  }
}

export function textJson(part: TextPart, context: AnswerContext): readonly JsonObject[] {
  const signed = signatureOf(part.signature, part, context);
  return part.text === "" && signed === undefined ? [] : [{ text: part.text, ...signed }];
}

export function thoughtJson(part: ReasoningPart, context: AnswerContext): readonly JsonObject[] {
  const signed = signatureOf(part.signature, part, context);
  return part.text === "" && signed === undefined ? [] : [{ text: part.text, thought: true, ...signed }];
}

/** A call needs an id here: what the gateway seals for it is found again by that. */
export function callJson(part: ToolCallPart, index: number, context: AnswerContext): JsonObject {
  const id = part.id === "" ? `call_${context.idSeed}_${index}` : part.id;
  return {
    functionCall: { id, name: part.name, args: argumentsOf(part) },
    ...signatureOf(part.signature, { ...part, id }, context),
  };
}

/**
 * Sealed thoughts also go with the next call, where this API has its own signatures: some clients (Gemini CLI) leave thoughts out of
 * the conversation that they send back, and return the calls as they were.
 */
export class CarriedThoughts {
  private readonly waiting: string[] = [];

  /** The calls of another channel do not follow from these thoughts. */
  clear(): void {
    this.waiting.length = 0;
  }

  /** Notes the signature of a thought. Returns the same parts. */
  note({ kind }: Pick<Part, "kind">, parts: readonly JsonObject[]): readonly JsonObject[] {
    for (const { thoughtSignature } of kind === "reasoning" ? parts : []) {
      if (typeof thoughtSignature === "string" && thoughtSignature.startsWith(sealedBase64Prefix)) this.waiting.push(thoughtSignature);
    }
    return parts;
  }

  /** The call with the first thought that no call has, unless it has a signature of its own. */
  on(call: JsonObject): JsonObject {
    const thoughtSignature = "thoughtSignature" in call ? undefined : this.waiting.shift();
    return thoughtSignature === undefined ? call : { ...call, thoughtSignature };
  }
}

function argumentsOf({ arguments: text, custom }: ToolCallPart): JsonObject {
  const json = custom === true ? wrapCustomInput(text) : text;
  if (json.trim() === "") return {};
  try {
    const parsed: unknown = JSON.parse(json);
    if (isJsonObject(parsed)) return parsed;
  } catch {
    // Wrapped below.
  }
  return { _raw: json };
}

/** Signatures of this API go to the client as they are; those of others sealed, as base64, or not at all. */
export function signatureOf(
  signature: ProviderValue | null | undefined,
  part: Part,
  { seal }: AnswerContext,
): { readonly thoughtSignature: string } | undefined {
  if (signature == null) return undefined;
  const text = signature.dialect === ownDialect ? signature.data : textToBase64(seal?.(part) ?? "");
  return text === "" ? undefined : { thoughtSignature: text };
}

/** The API has no reason of its own for calls. */
export function finishReason({ reason }: Finish, isRefused: boolean): string {
  if (reason === "content_filter" || isRefused) return "SAFETY";
  return reason === "length" ? "MAX_TOKENS" : "STOP";
}

/** Thoughts are counted beside the candidates here. Where the upstream did not count, our estimates are all there is. */
export function usageMetadata(usage: MeteredUsage | null, { request }: AnswerContext, characters: number): JsonObject {
  const prompt = usage?.promptTokens ?? request.promptTokensEstimate;
  const output = usage?.completionTokens ?? Math.ceil(characters / 4);
  const thoughts = usage?.reasoningTokens ?? 0;
  const cached = usage?.cachedTokens ?? 0;
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: Math.max(0, output - thoughts),
    totalTokenCount: prompt + output,
    ...(cached === 0 ? undefined : { cachedContentTokenCount: cached }),
    ...(thoughts === 0 ? undefined : { thoughtsTokenCount: thoughts }),
    ...details("promptTokensDetails", prompt, usage?.audioInputTokens),
    ...details("candidatesTokensDetails", Math.max(0, output - thoughts), usage?.audioOutputTokens),
  };
}

function details(name: string, all: number, audio: number | undefined): JsonObject | undefined {
  if (audio === undefined || audio === 0) return undefined;
  const entries = [
    { modality: "TEXT", tokenCount: Math.max(0, all - audio) },
    { modality: "AUDIO", tokenCount: audio },
  ];
  return { [name]: entries };
}

function charactersIn(parts: readonly Part[]): number {
  let characters = 0;
  for (const part of parts) {
    if (part.kind === "tool_call") characters += part.arguments.length;
    else if (part.kind === "text" || part.kind === "refusal" || part.kind === "reasoning") characters += part.text.length;
  }
  return characters;
}
