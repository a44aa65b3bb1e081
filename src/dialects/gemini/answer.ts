import type { ChatAnswer, Finish } from "../../operations/conversation/answer-parts.ts";
import type { Part, Tool } from "../../operations/conversation/conversation.ts";
import { ToolNames } from "../../operations/conversation/tool-names.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { servedBy, withSearches } from "../../operations/usage.ts";
import { sniffsAsEvents } from "../readers/event-reader.ts";
import { explainInBand } from "../errors/explain.ts";
import { parseUntrusted, textOf } from "../untrusted.ts";
import { groundedPages, searchesIn } from "./grounding.ts";
import { blockReasonOf, candidatesOf, finishOf, indexOf, partOf, partsOf } from "./response-parts.ts";
import { geminiUsage } from "./usage.ts";

/**
 * Reads an answer with status 200. Truncated JSON, an error, no candidate, or a model that failed is a failure of the channel, which can
 * be retried elsewhere. `tools`: the answer is translated; null: it keeps its bytes, and the reason why a model that wrote something failed.
 */
export function readGeminiAnswer(body: Uint8Array, tools: readonly Tool[] | null): WholeAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  if (sniffsAsEvents(body)) return failure("bad_response", "a stream came where a whole answer was asked for");
  const value = parseUntrusted(decoder.decode(body), body);
  if (value === undefined) return failure("bad_response", "the answer is not JSON");
  const error = errorIn(value);
  if (error !== null) return explainInBand(error);
  if (!isJsonObject(value)) return failure("bad_response", "the answer is JSON, but not an object");
  const finish = finishIn(value, tools !== null);
  if (typeof finish !== "string") return finish;
  const counted = withSearches(geminiUsage(value["usageMetadata"]), searchesIn(candidatesOf(value)));
  const usage = servedBy(counted, value["modelVersion"]);
  const whole: WholeAnswer = { kind: "whole", body, type: "application/json", usage, finish };
  return tools === null ? whole : { ...whole, answer: answerOf(value, { reason: finish, stopSequence: null }, usage, tools) };
}

const decoder = new TextDecoder();

/** Why the answer ended, in the API's own word; empty where it does not say. `readGeminiAnswer` has found that the body is an answer. */
export function finishReasonIn(body: Uint8Array): string {
  return reasonOf(firstCandidate(JSON.parse(decoder.decode(body)) as JsonObject));
}

/** The error of a body or an event: itself an object, or in a list, as the API sends it where no events were asked for. */
export function errorIn(value: unknown): unknown {
  const first = Array.isArray(value) ? (value as readonly unknown[])[0] : value;
  return isJsonObject(first) ? (first["error"] ?? null) : null;
}

function finishIn(response: JsonObject, isTranslated: boolean): Finish["reason"] | Failure {
  const first = firstCandidate(response);
  if (first === null) {
    return blockReasonOf(response) === null ? failure("bad_response", "the answer has no candidates") : "content_filter";
  }
  const parts = partsOf(first);
  const reason = reasonOf(first);
  const finish = finishOf(reason, parts.some(hasCall));
  if (finish !== "failed") return finish;
  if (parts.length > 0 && !isTranslated) return "stop";
  const failed = failure("model_failed", `the answer's finishReason is ${reason}`);
  return parts.length > 0 ? { ...failed, served: true } : failed;
}

function firstCandidate(response: JsonObject): JsonObject | null {
  return candidatesOf(response).find((candidate) => indexOf(candidate) === 0) ?? null;
}

function reasonOf(candidate: JsonObject | null): string {
  return textOf(candidate?.["finishReason"]);
}

function hasCall(part: JsonObject): boolean {
  return isJsonObject(part["functionCall"]);
}

/** Only the first candidate is read; a translated request asks for no other. */
function answerOf(response: JsonObject, finish: Finish, usage: ChatAnswer["usage"], tools: readonly Tool[]): ChatAnswer {
  const names = new ToolNames(tools);
  const parts: Part[] = [];
  for (const part of partsOf(firstCandidate(response) ?? {})) {
    const read = partOf(part, names);
    if (read !== null) parts.push(read);
  }
  const text = parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
  const sources = groundedPages(firstCandidate(response) ?? {}, text);
  return {
    ...(sources.length === 0 ? undefined : { sources }),
    id: textOf(response["responseId"]) || null,
    model: textOf(response["modelVersion"]) || null,
    createdSeconds: null,
    parts,
    finish,
    usage,
  };
}
