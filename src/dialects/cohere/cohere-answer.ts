import type { ChatAnswer, Finish, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Part, Tool } from "../../operations/conversation/conversation.ts";
import type { Emission, Output, WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import { tokenCount, type MeteredUsage } from "../../operations/usage.ts";
import type { Emissions, EventDecoder, SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { AnsweredCalls } from "../translated/tool-calls.ts";
import { parseUntrusted, filledTextOf, objectOf, objectsIn, textOf } from "../untrusted.ts";

/** Reads a complete answer. One without a message is a failure of the channel, which can be retried elsewhere. */
export function readCohere(body: Uint8Array, tools: readonly Tool[]): WholeAnswer | Failure {
  const answer = objectOf(parseUntrusted(decoder.decode(body), body));
  if (answer === null) return failure("bad_response", "the answer is not a JSON object");
  const message = objectOf(answer["message"]);
  if (message === null) {
    if (typeof answer["message"] === "string") return explainInBand(answer);
    return failure("bad_response", "the answer has no message");
  }
  const calls = new AnsweredCalls(tools);
  const parts: Part[] = [];
  const plan = textOf(message["tool_plan"]);
  if (plan !== "") parts.push({ kind: "reasoning", text: plan, signature: null });
  for (const block of objectsIn(message["content"])) {
    const thought = textOf(block["thinking"]);
    if (thought !== "") parts.push({ kind: "reasoning", text: thought, signature: null });
    const text = textOf(block["text"]);
    if (text !== "") parts.push({ kind: "text", text });
  }
  for (const call of objectsIn(message["tool_calls"])) {
    const called = objectOf(call["function"]);
    parts.push(calls.whole(textOf(call["id"]), textOf(called?.["name"]), argumentsOf(called?.["arguments"]) || "{}"));
  }
  const finish = finishOf(answer["finish_reason"], calls.count > 0);
  if (isFailure(finish)) return finish;
  const usage = cohereUsage(answer["usage"]);
  const read: ChatAnswer = {
    id: filledTextOf(answer["id"] ?? answer["generation_id"]),
    model: null,
    createdSeconds: null,
    parts,
    finish,
    usage,
  };
  return { kind: "whole", body, type: "application/json", usage, finish: finish.reason, answer: read };
}

/** What the events of a stream say. Calls come one after the other. */
export class CohereStream implements EventDecoder {
  private readonly calls: AnsweredCalls;
  private started = false;
  private hasOutput = false;
  private finish: Finish | null = null;
  private id: string | null = null;
  /** Which call the pieces belong to. */
  private call = -1;

  constructor(tools: readonly Tool[]) {
    this.calls = new AnsweredCalls(tools);
  }

  get finished(): boolean {
    return this.finish !== null;
  }

  read(event: SseEvent): Emissions {
    if (this.finish !== null || event.data.startsWith("[DONE]")) return none;
    const body = objectOf(parseUntrusted(event.data, encoder.encode(event.data)));
    if (body === null) return [{ kind: "skipped", detail: "an event is not a JSON object" }];
    const delta = objectOf(body["delta"]);
    const message = objectOf(delta?.["message"]);
    switch (body["type"]) {
      case "message-start":
        this.id = filledTextOf(body["id"]);
        return this.delta([], null);
      case "tool-plan-delta":
        return this.reasoning(textOf(message?.["tool_plan"]));
      case "content-start":
      case "content-delta":
        return this.content(objectOf(message?.["content"]) ?? {});
      case "tool-call-start":
        return this.beginCall(objectOf(message?.["tool_calls"]) ?? {});
      case "tool-call-delta":
        return this.addArguments(argumentsOf(objectOf(objectOf(message?.["tool_calls"])?.["function"])?.["arguments"]));
      case "tool-call-end":
        return this.said(this.calls.end(this.call), "tool_call");
      case "message-end":
        return this.end(delta ?? {});
      case "content-end":
      case "citation-start":
      case "citation-end":
        return none;
      default:
        if (event.name === "error" || typeof body["message"] === "string") return this.broken(explainInBand(body));
        return [{ kind: "skipped", detail: "an event of an unknown type" }];
    }
  }

  close(): Emissions {
    if (this.finish !== null) return none;
    return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without its last event");
  }

  private content(content: JsonObject): Emissions {
    const thought = this.reasoning(textOf(content["thinking"]));
    const text = textOf(content["text"]);
    return text === "" ? thought : [...thought, ...this.delta([{ kind: "text", text }], "text", text)];
  }

  private reasoning(text: string): readonly Emission[] {
    return text === "" ? none : this.delta([{ kind: "reasoning", text }], "reasoning", "", text);
  }

  private beginCall(call: JsonObject): Emissions {
    const called = objectOf(call["function"]);
    const name = textOf(called?.["name"]);
    this.call++;
    const args = argumentsOf(called?.["arguments"]);
    const parts = [...this.calls.begin(this.call, textOf(call["id"]), name), ...this.calls.add(this.call, args)];
    return this.delta(parts, "tool_call", "", name + args);
  }

  private addArguments(args: string): Emissions {
    return this.said(this.calls.add(this.call, args), "tool_call", args);
  }

  private end(delta: JsonObject): Emissions {
    const finish = finishOf(delta["finish_reason"], this.calls.count > 0);
    if (isFailure(finish)) {
      return this.broken(typeof delta["error"] === "string" ? explainInBand({ message: delta["error"] }) : finish);
    }
    this.finish = finish;
    const usage = cohereUsage(delta["usage"]);
    return [
      ...this.delta([...this.calls.endAll(), { kind: "finish", finish }], "finish"),
      ...(usage === null ? none : [{ kind: "usage", frame: null, usage } as const]),
      { kind: "end", frame: noFrame, finish: finish.reason },
    ];
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  private broken(cause: Failure, detail = cause.detail): Failure {
    return this.hasOutput ? failure("interrupted", detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }

  private said(parts: readonly StreamPart[], output: Output, unsaid = ""): Emissions {
    return parts.length === 0 ? none : this.delta(parts, output, "", unsaid);
  }

  private delta(parts: readonly StreamPart[], output: Output | null, text = "", unsaid = ""): readonly Emission[] {
    const said: readonly StreamPart[] = this.started
      ? parts
      : [{ kind: "start", id: this.id, model: null, createdSeconds: null }, ...parts];
    this.started = true;
    if (output !== null) this.hasOutput = true;
    const plain = { kind: "delta", frame: noFrame, output, text, finishes: output === "finish", parts: said } as const;
    return [unsaid === "" ? plain : { ...plain, unsaid }];
  }
}

/** Why an answer ended, or that the model failed. */
function finishOf(reason: unknown, calls: boolean): Finish | Failure {
  switch (reason) {
    case "ERROR":
    case "TIMEOUT":
      return failure("model_failed", `the answer's finish reason is ${reason}`);
    case "MAX_TOKENS":
      return { reason: "length", stopSequence: null };
    case "ERROR_TOXIC":
      return { reason: "content_filter", stopSequence: null };
    default:
      return { reason: calls ? "tool_calls" : "stop", stopSequence: null };
  }
}

/**
 * What is billed is less than what was read: the provider adds text of its own. The number of cached tokens is about what was read, so
 * that it goes with that one only.
 */
function cohereUsage(value: unknown): MeteredUsage | null {
  const usage = objectOf(value);
  const billed = objectOf(usage?.["billed_units"]);
  const counted = billed ?? objectOf(usage?.["tokens"]);
  const promptTokens = tokenCount(counted?.["input_tokens"]);
  const completionTokens = tokenCount(counted?.["output_tokens"]);
  if (promptTokens === null && completionTokens === null) return null;
  const cachedTokens = billed === null ? tokenCount(usage?.["cached_tokens"]) : null;
  return { promptTokens, completionTokens, cachedTokens, reasoningTokens: null };
}

/** A call without arguments may have the text `null` there. */
function argumentsOf(value: unknown): string {
  const text = textOf(value);
  return text === "null" ? "" : text;
}

const none: readonly Emission[] = [];
const noFrame = new Uint8Array();
const decoder = new TextDecoder();
const encoder = new TextEncoder();
