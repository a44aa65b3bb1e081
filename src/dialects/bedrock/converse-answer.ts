import type { ChatAnswer, Finish, FinishReason } from "../../operations/conversation/answer-parts.ts";
import type { Part, Tool } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { elementsOf, lastMember, membersOf, scanJson, type JsonMember, type JsonObject, type JsonSpan } from "../../operations/json.ts";
import { tokenCount, type MeteredUsage } from "../../operations/usage.ts";
import { explainInBand } from "../errors/explain.ts";
import { AnsweredCalls } from "../translated/tool-calls.ts";
import { depthLimits, parseUntrusted, objectOf, textOf } from "../untrusted.ts";
import { converseDialect } from "./converse-body.ts";

/** Reads a complete answer. One without a message is a failure of the channel, which can be retried elsewhere. */
export function readConverse(body: Uint8Array, tools: readonly Tool[]): WholeAnswer | Failure {
  const answer = objectOf(parseUntrusted(decoder.decode(body), body));
  if (answer === null) return failure("bad_response", "the answer is not a JSON object");
  const message = objectOf(objectOf(answer["output"])?.["message"]);
  if (message === null || !Array.isArray(message["content"])) {
    if (typeof answer["message"] === "string") return explainInBand(answer);
    return failure("bad_response", "the answer has no message");
  }
  const calls = new AnsweredCalls(tools);
  const content = (message["content"] as readonly unknown[]).map((block) => objectOf(block) ?? {});
  const inputs = content.some((block) => "toolUse" in block) ? inputTexts(body) : [];
  const parts = content.flatMap((block, index) => partOf(block, inputs[index] ?? "{}", calls));
  const finish = finishOf(answer["stopReason"], calls.count > 0);
  if (isFailure(finish)) return finish;
  const usage = converseUsage(answer["usage"]);
  const read: ChatAnswer = { id: null, model: null, createdSeconds: null, parts, finish, usage };
  return { kind: "whole", body, type: "application/json", usage, finish: finish.reason, answer: read };
}

/** The inputs of calls as the model wrote them, by the number of their block: parsed and printed, large numbers would lose digits. */
function inputTexts(body: Uint8Array): readonly (string | undefined)[] {
  const inside = (object: JsonSpan | undefined, key: string): JsonMember | undefined =>
    object?.kind === "object" ? lastMember(membersOf(body, object.start, object.end), key) : undefined;
  const document = scanJson(body, depthLimits);
  const output = document.ok ? lastMember(document.members, "output") : undefined;
  const content = inside(inside(output, "message"), "content");
  if (content?.kind !== "array") return [];
  return elementsOf(body, content.start, content.end).map((block) => {
    const input = inside(inside(block, "toolUse"), "input");
    return input?.kind === "object" ? decoder.decode(body.subarray(input.start, input.end)) : undefined;
  });
}

function partOf(block: JsonObject, input: string, calls: AnsweredCalls): readonly Part[] {
  if (typeof block["text"] === "string") return [{ kind: "text", text: block["text"] }];
  const call = objectOf(block["toolUse"]);
  if (call !== null) return [calls.whole(textOf(call["toolUseId"]), textOf(call["name"]), input)];
  const reasoning = objectOf(block["reasoningContent"]);
  if (reasoning !== null) return reasoningOf(reasoning);
  // A text with its sources: the text is what the client asked for.
  const cited = objectOf(block["citationsContent"])?.["content"];
  if (!Array.isArray(cited)) return [];
  const text = (cited as readonly unknown[]).map((one) => textOf(objectOf(one)?.["text"])).join("");
  return [{ kind: "text", text }];
}

function reasoningOf(reasoning: JsonObject): readonly Part[] {
  const redacted = reasoning["redactedContent"];
  if (typeof redacted === "string") {
    return [{ kind: "reasoning", text: "", signature: { dialect: converseDialect, data: redacted }, redacted: true }];
  }
  const shown = objectOf(reasoning["reasoningText"]);
  if (shown === null) return [];
  const signature = textOf(shown["signature"]);
  return [
    { kind: "reasoning", text: textOf(shown["text"]), signature: signature === "" ? null : { dialect: converseDialect, data: signature } },
  ];
}

/** Why an answer ended, or that the model failed. */
export function finishOf(stopReason: unknown, calls: boolean): Finish | Failure {
  if (stopReason === "malformed_tool_use" || stopReason === "malformed_model_output") {
    return failure("model_failed", `the answer's stop reason is ${stopReason}`);
  }
  return { reason: reasonOf(stopReason, calls), stopSequence: null };
}

function reasonOf(stopReason: unknown, calls: boolean): FinishReason {
  switch (stopReason) {
    case "max_tokens":
    case "model_context_window_exceeded":
      return "length";
    case "content_filtered":
    case "guardrail_intervened":
      return "content_filter";
    case "tool_use":
      return "tool_calls";
    default:
      return calls ? "tool_calls" : "stop";
  }
}

/** The API counts what was read from a cache or written to one beside the input; here, both are parts of it. */
export function converseUsage(value: unknown): MeteredUsage | null {
  const usage = objectOf(value);
  const input = tokenCount(usage?.["inputTokens"]);
  const output = tokenCount(usage?.["outputTokens"]);
  if (input === null && output === null) return null;
  const read = tokenCount(usage?.["cacheReadInputTokens"]);
  const written = tokenCount(usage?.["cacheWriteInputTokens"]);
  const hour = writtenForAnHour(usage?.["cacheDetails"]);
  return {
    promptTokens: input === null ? null : input + (read ?? 0) + (written ?? 0),
    completionTokens: output,
    cachedTokens: read,
    reasoningTokens: null,
    ...(written === null ? undefined : { cacheWriteTokens: written }),
    ...(written === null || hour === 0 ? undefined : { cacheWriteHourTokens: Math.min(hour, written) }),
  };
}

/** What is kept for an hour costs more than what is kept for five minutes. */
function writtenForAnHour(details: unknown): number {
  if (!Array.isArray(details)) return 0;
  const kept = (details as readonly unknown[]).map(objectOf).filter((one) => /1h/i.test(textOf(one?.["ttl"])));
  return kept.reduce((sum, one) => sum + (tokenCount(one?.["inputTokens"]) ?? 0), 0);
}

const decoder = new TextDecoder();
