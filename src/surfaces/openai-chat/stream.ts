import type { CitedPage, Finish, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Part } from "../../operations/conversation/conversation.ts";
import type { AnswerContext, AnswerWriter } from "../../operations/conversation/surface.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { JsonProgress } from "../json-progress.ts";
import { annotationsOf, callHead, completionId, finishReason, usageObject } from "./completion.ts";
import { reasoningDetails, sealedOf, type SealedThought } from "./reasoning.ts";

/**
 * A call of the answer. The first one of the queue is on its way to the client; what the others are made of waits in them, because clients
 * take a call for complete when the next one begins.
 */
interface WrittenCall {
  /** Its number in the answer. */
  readonly index: number;
  readonly name: string;
  /** The delta that it begins with. */
  readonly start: JsonObject;
  readonly isCustom: boolean;
  /** How much of its arguments has come; null where they are a free text, of which nobody knows where it ends. */
  readonly progress: JsonProgress | null;
  readonly waiting: string[];
  isStarted: boolean;
  /** Nothing is added to it any more. */
  isClosed: boolean;
}

/** Writes the chunks of one answer. */
export class ChunkWriter implements AnswerWriter {
  readonly type = "text/event-stream; charset=utf-8";
  private frames = "";
  /** What every chunk begins with; null before the first one. */
  private head: string | null = null;
  private readonly tail: string;
  private ended = false;
  private readonly queue: WrittenCall[] = [];
  /** The calls by the number that the upstream gave them. */
  private readonly calls = new Map<number, WrittenCall>();
  private callCount = 0;
  /** The thought or the text that is not closed yet: a signature that follows is sealed with it. */
  private open: { readonly kind: "text" | "reasoning"; text: string; readonly isSummary: boolean } | null = null;
  /** What is sealed of the answer. It is sent at once: the official client keeps only the last piece of a field that it does not know. */
  private readonly sealed: SealedThought[] = [];
  private characters = 0;
  /** Where the text of the present channel begins. */
  private base = 0;
  private readonly pages: CitedPage[] = [];
  private finish: Finish = { reason: "stop", stopSequence: null };
  private usage: MeteredUsage | null = null;

  constructor(private readonly context: AnswerContext) {
    // Where usage was asked for, every chunk has the field, and only the last one has something in it.
    this.tail = this.wantsUsage ? ',"usage":null}\n\n' : "}\n\n";
  }

  write(parts: readonly StreamPart[]): Uint8Array {
    if (this.ended) return nothing;
    for (const part of parts) this.add(part);
    return this.takeFrames();
  }

  end(): Uint8Array {
    if (this.ended) return nothing;
    this.begin(null);
    this.closeCalls();
    // At once, as the sealed values are: the official client keeps the last list only.
    if (this.pages.length > 0) this.chunk(JSON.stringify({ annotations: annotationsOf(this.pages) }));
    const details = reasoningDetails(this.sealed);
    if (details !== undefined) this.chunk(JSON.stringify(details));
    this.chunk("{}", finishReason(this.finish, this.callCount, this.context));
    if (this.wantsUsage && this.usage !== null) {
      this.frames += `data: ${this.head},"choices":[],"usage":${JSON.stringify(usageObject(this.usage))}}\n\n`;
    }
    this.frames += endMark;
    this.ended = true;
    return this.takeFrames();
  }

  private get wantsUsage(): boolean {
    return this.context.request.echo["usage"] === true;
  }

  private takeFrames(): Uint8Array {
    if (this.frames === "") return nothing;
    const bytes = encoder.encode(this.frames);
    this.frames = "";
    return bytes;
  }

  private add(part: StreamPart): void {
    // It may come before the answer begins, and is written at its end.
    if (part.kind === "usage") {
      this.usage = part.usage;
      return;
    }
    // Another channel that goes on with the answer begins anew; the client's answer has begun.
    this.begin(part.kind === "start" ? part : null);
    if (!goingOn.has(part.kind)) this.open = null;
    switch (part.kind) {
      case "text":
        return this.addText("text", part.text, false);
      case "reasoning":
        return this.addText("reasoning", part.text, part.summary === true);
      case "reasoning_signature":
      case "text_signature":
        return this.sign(part);
      case "refusal":
        if (part.text !== "") this.chunk(`{"refusal":${JSON.stringify(part.text)}}`);
        return;
      case "tool_call":
        return this.addCall(part);
      case "tool_arguments":
        return this.addArguments(part.index, part.text);
      case "finish":
        this.finish = part.finish;
        return this.closeCalls();
      // Values of another API have no place here.
      case "citations":
      case "passed_block":
        return;
      case "start":
        this.base = this.characters;
        return;
      case "sources":
        // Another channel that goes on counts from the beginning of its own text.
        for (const page of part.sources) this.pages.push({ ...page, start: page.start + this.base, end: page.end + this.base });
    }
  }

  private begin(start: Extract<StreamPart, { kind: "start" }> | null): void {
    if (this.head !== null) return;
    const { request, nowSeconds } = this.context;
    const resumed = start?.resumes === true ? start : null;
    const fields = {
      id: resumed?.id ?? completionId(this.context),
      object: "chat.completion.chunk",
      created: resumed?.createdSeconds ?? nowSeconds,
      model: start?.model ?? request.model,
    };
    this.head = JSON.stringify(fields).slice(0, -1);
    // Some clients join the roles that they are told.
    if (resumed === null) this.chunk('{"role":"assistant","content":"","refusal":null}');
  }

  private addText(kind: "text" | "reasoning", text: string, isSummary: boolean): void {
    if (text === "") return;
    if (kind === "text") this.characters += text.length;
    if (this.context.seal !== null) {
      if (this.open?.kind !== kind || this.open.isSummary !== isSummary) this.open = { kind, text: "", isSummary };
      this.open.text += text;
    }
    this.chunk(`{"${kind === "text" ? "content" : "reasoning_content"}":${JSON.stringify(text)}}`);
  }

  private sign(part: Extract<StreamPart, { kind: "reasoning_signature" | "text_signature" }>): void {
    const data = sealedOf(this.signed(part), this.context);
    this.open = null;
    if (data !== "") this.sealed.push({ data, characters: this.characters, calls: this.callCount });
  }

  private signed(part: Extract<StreamPart, { kind: "reasoning_signature" | "text_signature" }>): Part {
    const { signature } = part;
    const kind = part.kind === "text_signature" ? "text" : "reasoning";
    const open = this.open?.kind === kind ? this.open : null;
    if (kind === "text") return { kind, text: open?.text ?? "", signature };
    if (part.kind === "reasoning_signature" && part.redacted) return { kind, text: "", signature, redacted: true };
    return { kind, text: open?.text ?? "", signature, ...(open?.isSummary === true ? { summary: true } : undefined) };
  }

  private addCall(part: Extract<StreamPart, { kind: "tool_call" }>): void {
    const index = this.callCount++;
    // The upstream used its number before: that call has got all it will get.
    const before = this.calls.get(part.index);
    if (before !== undefined) before.isClosed = true;
    const isCustom = part.custom === true;
    const called = isCustom ? { custom: { name: part.name, input: "" } } : { function: { name: part.name, arguments: "" } };
    const call: WrittenCall = {
      index,
      name: part.name,
      start: { index, ...callHead(part, index, this.context), ...called },
      isCustom,
      progress: isCustom ? null : new JsonProgress(),
      waiting: [],
      isStarted: false,
      isClosed: false,
    };
    this.calls.set(part.index, call);
    this.queue.push(call);
    if (this.queue.length === 1) this.startCall(call);
    else this.advance();
  }

  private addArguments(number: number, text: string): void {
    const call = this.calls.get(number);
    if (call === undefined || call.isClosed || text === "") return;
    const piece = call.progress === null ? text : call.progress.take(text);
    if (call.isStarted) this.putArguments(call, piece);
    else call.waiting.push(piece);
    if (call.progress?.isComplete !== true) return;
    call.isClosed = true;
    this.advance();
  }

  /** Begins the calls that follow those that are complete. The pieces of several calls may interleave. */
  private advance(): void {
    for (;;) {
      const [first, next] = this.queue;
      if (first === undefined || next === undefined || !(first.isClosed || first.isCustom)) return;
      this.endCall(first);
      this.queue.shift();
      this.startCall(next);
    }
  }

  private closeCalls(): void {
    for (const call of this.queue) call.isClosed = true;
    this.advance();
    const last = this.queue.shift();
    if (last !== undefined) this.endCall(last);
  }

  private startCall(call: WrittenCall): void {
    call.isStarted = true;
    if (!this.isLegacy) this.chunk(JSON.stringify({ tool_calls: [call.start] }));
    else if (call.index === 0) this.chunk(JSON.stringify({ function_call: { name: call.name, arguments: "" } }));
    for (const piece of call.waiting) this.putArguments(call, piece);
    call.waiting.length = 0;
  }

  /** Clients parse the arguments, and an empty text is no JSON. */
  private endCall(call: WrittenCall): void {
    if (call.progress !== null && call.progress.isObject === null) this.putArguments(call, "{}");
  }

  private putArguments({ index, isCustom }: WrittenCall, text: string): void {
    if (text === "") return;
    const json = JSON.stringify(text);
    if (!this.isLegacy) {
      this.chunk(`{"tool_calls":[{"index":${index},${isCustom ? `"custom":{"input":${json}}` : `"function":{"arguments":${json}}`}}]}`);
    } else if (index === 0) this.chunk(`{"function_call":{"arguments":${json}}}`);
  }

  private get isLegacy(): boolean {
    return this.context.request.echo["functions"] === true;
  }

  /** `delta` is JSON. */
  private chunk(delta: string, reason: string | null = null): void {
    const finish = reason === null ? "null" : `"${reason}"`;
    this.frames += `data: ${this.head},"choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finish}}]${this.tail}`;
  }
}

/** What may go on with a text or a thought, or sign it. */
const goingOn: ReadonlySet<StreamPart["kind"]> = new Set(["text", "sources", "text_signature", "reasoning", "reasoning_signature"]);
const nothing = new Uint8Array(0);
const encoder = new TextEncoder();
const endMark = "data: [DONE]\n\n";
