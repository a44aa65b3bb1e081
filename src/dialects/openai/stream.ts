import type { Tool } from "../../operations/conversation/conversation.ts";
import type { Emission, Output } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { tokenUsage } from "../../operations/usage.ts";
import type { EventDecoder, SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { brokenOff } from "./answer.ts";
import { ChunkParts } from "./chat-parts.ts";
import { usageExtension } from "../presets.ts";
import { RepeatedChunk } from "./repeated-chunk.ts";
import { filledTextOf, parseUntrusted, textOf } from "../untrusted.ts";

/**
 * Reads the events of a chat stream without changing them. It finds out what the transport cannot tell: when the first output came,
 * whether every choice is finished, and so whether the stream is complete at the end of the body.
 */
export class OpenAiStream implements EventDecoder {
  /** For each choice seen: 1 while it is open, 2 once it has its finish_reason. */
  private readonly choices: (1 | 2)[] = [];
  private openCount = 0;
  private doneCount = 0;
  private hasOutput = false;
  /** There is an answer in text, which for a client of this API an end mark completes even without a finish_reason. */
  private answered = false;
  private calledTools = false;
  private ended = false;
  private finish: string | null = null;
  /** What the chunks that arrived together repeat. It goes with them: a stream that waits keeps nothing. */
  private repeated: RepeatedChunk | null = null;
  private repeatedOutput: "text" | "reasoning" = "text";
  /** The deltas that had to be parsed among the events that arrived together. */
  private parsedDeltas = 0;

  /** Where the client speaks another API: what the chunks say, to be written anew. */
  private readonly parts: ChunkParts | null;

  constructor(private readonly options: ChatStreamOptions) {
    this.parts = options.tools == null ? null : new ChunkParts(options.tools);
  }

  get finished(): boolean {
    return this.openCount === 0 && this.doneCount >= this.options.choices;
  }

  read(event: SseEvent): readonly Emission[] | Failure {
    if (this.ended) return none;
    const words = event.name === "" ? (this.repeated?.wordsIn(event.data) ?? null) : null;
    if (words !== null) return [repeatedDelta(event.frame, this.repeatedOutput, words)];
    if (event.data.startsWith("[DONE]")) return this.end(event.frame);
    const chunk = parse(event);
    if (chunk === null) return [{ kind: "skipped", detail: "an event is not a JSON object" }];
    if (isError(chunk, event.name)) return this.broken(explainInBand(chunk.error ?? chunk));

    const usage = tokenUsage(chunk.usage ?? chunk[usageExtension]?.usage, chunk.model);
    const choices = Array.isArray(chunk.choices) ? (chunk.choices as readonly (ChunkChoice | null)[]) : null;
    if (usage !== null && (choices === null || choices.length === 0)) {
      return [{ kind: "usage", frame: this.options.hidesUsage ? null : event.frame, usage }];
    }
    let output: Output | null = null;
    let text = "";
    let unsaid = "";
    let finishes = false;
    for (const each of choices ?? []) {
      if (typeof each !== "object" || each === null) continue;
      const choice = this.options.texts === true ? asDelta(each) : each;
      const found = this.readChoice(choice);
      if (found === "failed") return this.broken(failure("model_failed", `the stream's finish_reason is ${String(choice.finish_reason)}`));
      output ??= found;
      if (typeof choice.delta?.["content"] === "string") text += choice.delta["content"];
      if (found !== null && found !== "text" && found !== "finish") unsaid += unsaidOf(choice.delta);
      finishes ||= filledTextOf(choice.finish_reason) !== null;
    }
    if (output !== null) this.noteOutput(output, text);
    const plain = { kind: "delta", frame: event.frame, output, text, finishes } as const;
    const looked: Emission = unsaid === "" ? plain : { ...plain, unsaid };
    const delta = this.parts === null ? looked : { ...looked, parts: this.parts.read(chunk as Readonly<Record<string, unknown>>) };
    if (usage !== null) return [delta, { kind: "usage", frame: null, usage }];
    if (!finishes && this.parts === null && choices?.length === 1 && event.name === "")
      this.compareWithNext(event.data, output, text, unsaid);
    return [delta];
  }

  batchRead(): void {
    this.repeated = null;
    this.parsedDeltas = 0;
  }

  /** After a few deltas that had to be parsed, the next ones are compared with the last of them. Where they take turns, that ends. */
  private compareWithNext(data: string, output: Output | null, text: string, unsaid: string): void {
    const words = output === "text" ? text : unsaid;
    if (words === "" || (output !== "text" && (output !== "reasoning" || text !== ""))) return;
    this.parsedDeltas++;
    if (this.parsedDeltas < comparedFrom || this.parsedDeltas >= comparedUntil) return;
    this.repeatedOutput = output;
    this.repeated = RepeatedChunk.of(data, words, (each) => wordsOf(each, output));
  }

  close(): readonly Emission[] | Failure {
    if (this.ended) return none;
    if (this.finished) return this.end(endFrame);
    return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without a finish_reason");
  }

  /** The output of one choice. Counts the choices that are still open. */
  private readChoice(choice: ChunkChoice): Output | "failed" | null {
    const index = typeof choice.index === "number" && choice.index < choicesMax ? choice.index : 0;
    const output = outputOf(choice.delta);
    // Some upstreams write an empty reason into every chunk until they have one.
    const reason = filledTextOf(choice.finish_reason);
    if (reason !== null) {
      // A client that speaks this API reads the reason itself; in another API there is none for it.
      const isHidden = this.parts !== null || (!this.hasOutput && output === null);
      if (isHidden && brokenOff.has(reason)) return "failed";
      if (this.choices[index] === 1) this.openCount--;
      if (this.choices[index] !== 2) this.doneCount++;
      this.choices[index] = 2;
      this.finish = reason;
      return output ?? "finish";
    }
    if (this.choices[index] === undefined && (output !== null || choice.delta !== undefined)) {
      this.choices[index] = 1;
      this.openCount++;
    }
    return output;
  }

  private noteOutput(output: Output, text: string): void {
    this.hasOutput = true;
    if (output === "tool_call") this.calledTools = true;
    // A delta may hold the last of the reasoning and the first words of the answer.
    else if (output !== "reasoning" || text !== "") this.answered = true;
  }

  /**
   * An end mark completes a stream that had output. A missing finish_reason is not invented: a text may be complete without it, but a
   * tool call may have incomplete arguments, and reasoning alone is no answer. Nor is a choice complete without one where another has one:
   * this upstream writes them. Written anew, an answer cannot end without a reason.
   */
  private end(frame: Uint8Array): readonly Emission[] | Failure {
    if (!this.hasOutput && !this.finished) return failure("bad_response", "the stream ended before its first output");
    if (!this.finished && this.calledTools) return cutAfter("a tool call");
    if (this.finish !== null && this.openCount > 0) return cutAfter("the text of one choice");
    if (this.finish === null && !this.answered) return cutAfter("reasoning alone");
    if (this.finish === null && this.parts !== null) return cutAfter("a text");
    this.ended = true;
    return [{ kind: "end", frame, finish: this.finish }];
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  private broken(cause: Failure, detail = cause.detail): Failure {
    return this.hasOutput ? failure("interrupted", detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }
}

export interface ChatStreamOptions {
  readonly hidesUsage: boolean;
  readonly choices: number;
  /** The tools of a conversation that is translated; absent where the client speaks this API, and gets the chunks as they are. */
  readonly tools?: readonly Tool[] | null;
  /** The stream is that of a completion: its choices have a text instead of a delta. */
  readonly texts?: boolean;
}

interface ChatChunk {
  readonly choices?: unknown;
  readonly model?: unknown;
  readonly usage?: unknown;
  readonly [usageExtension]?: { readonly usage?: unknown } | null;
  readonly error?: unknown;
}

interface ChunkChoice {
  readonly index?: unknown;
  readonly delta?: Readonly<Record<string, unknown>> | null;
  readonly finish_reason?: unknown;
}

function asDelta(choice: ChunkChoice & { readonly text?: unknown }): ChunkChoice {
  return { index: choice.index, delta: { content: choice.text }, finish_reason: choice.finish_reason };
}

/** Comparing has to be prepared, which takes as long as parsing three deltas. */
const comparedFrom = 4;
const comparedUntil = 8;
/** The OpenAI API allows 128. A larger index is treated as the first choice. */
const choicesMax = 1024;
const none: readonly Emission[] = [];
const endFrame = new TextEncoder().encode("data: [DONE]\n\n");

function cutAfter(what: string): Failure {
  return failure("interrupted", `the stream ended without a finish_reason after ${what}`);
}

function parse(event: SseEvent): ChatChunk | null {
  const value = parseUntrusted(event.data, event.frame, "data: ".length, -2);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
}

/** The words of a chunk with one choice; null if it is not valid. */
function wordsOf(data: string, output: "text" | "reasoning"): string | null {
  try {
    const { choices } = JSON.parse(data) as { readonly choices: readonly [ChunkChoice] };
    const { delta } = choices[0];
    return output === "text" ? textOf(delta?.["content"]) : unsaidOf(delta);
  } catch {
    return null;
  }
}

/** A chunk that differs from an earlier one in its words alone. It changes nothing about what is finished. */
function repeatedDelta(frame: Uint8Array, output: "text" | "reasoning", words: string): Emission {
  if (output === "text") return { kind: "delta", frame, output, text: words, finishes: false };
  return { kind: "delta", frame, output, text: "", finishes: false, unsaid: words };
}

function isError(chunk: ChatChunk, eventName: string): boolean {
  return (chunk.error !== undefined && chunk.error !== null) || eventName === "error";
}

/** The kind of output, the rarer kinds first: a frame with text and a tool call counts as a tool call. */
function outputOf(delta: ChunkChoice["delta"]): Output | null {
  if (typeof delta !== "object" || delta === null) return null;
  if (filled(delta["tool_calls"]) || filled(delta["function_call"])) return "tool_call";
  if (filled(delta["audio"])) return "audio";
  if (filled(delta["reasoning_content"]) || filled(delta["reasoning"]) || filled(delta["reasoning_details"])) return "reasoning";
  if (filled(delta["refusal"])) return "refusal";
  return filled(delta["content"]) ? "text" : null;
}

/** Output of a delta that is not content: reasoning, a refusal or tool calls. It is counted and billed like content. */
function unsaidOf(delta: ChunkChoice["delta"]): string {
  if (typeof delta !== "object" || delta === null) return "";
  const thought = filled(delta["reasoning_content"]) ? delta["reasoning_content"] : delta["reasoning"];
  const calls = Array.isArray(delta["tool_calls"]) ? (delta["tool_calls"] as readonly ({ readonly function?: unknown } | null)[]) : [];
  const called = [delta["function_call"], ...calls.map((call) => call?.function)] as readonly (Readonly<Record<string, unknown>> | null)[];
  return [thought, delta["refusal"], ...called.flatMap((one) => [one?.["name"], one?.["arguments"]])]
    .filter((text) => typeof text === "string")
    .join("");
}

function filled(value: unknown): boolean {
  if (typeof value === "string") return value !== "";
  if (Array.isArray(value)) return value.length > 0;
  return typeof value === "object" && value !== null;
}
