import type { Finish, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { ToolCallPart } from "../../operations/conversation/conversation.ts";
import type { AnswerContext, AnswerWriter, StreamPlace } from "../../operations/conversation/surface.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { JsonProgress } from "../json-progress.ts";
import { callJson, CarriedThoughts, finishReason, responseOf, textJson, thoughtJson, usageMetadata, type ResponseEnd } from "./response.ts";

/** A call whose arguments arrive. */
interface OpenFunctionCall {
  readonly call: Omit<ToolCallPart, "arguments">;
  readonly index: number;
  args: string;
  /** How much of its arguments has come; null where they are a free text, of which nobody knows where it ends. */
  readonly progress: JsonProgress | null;
}

/** What stands around the responses of a stream. */
export interface ResponseFraming {
  readonly type: string;
  /** `number`: how many came before. */
  before(number: number): string;
  after(isLast: boolean): string;
}

export const eventFraming: ResponseFraming = {
  type: "text/event-stream; charset=utf-8",
  before: () => "data: ",
  after: () => "\n\n",
};

/** One JSON document. */
export const listFraming: ResponseFraming = {
  type: "application/json",
  before: (number) => (number === 0 ? "[" : ",\n"),
  after: (isLast) => (isLast ? "]" : ""),
};

/**
 * Writes the events of one answer. Each is a response of its own with the next parts, so that one can go on after what another channel
 * said. A call is sent when it is whole: this API has no pieces of arguments.
 */
export class GenerateWriter implements AnswerWriter {
  readonly type: string;
  private written = 0;
  private ended = false;
  private model: string | null = null;
  private parts: JsonObject[] = [];
  /** The calls by the number that the upstream gave them, in the order in which they began. */
  private readonly calls = new Map<number, OpenFunctionCall>();
  private readonly thoughts = new CarriedThoughts();
  private callCount = 0;
  private characters = 0;
  /** What was said and thought so far, where it may have to be sealed. */
  private said = "";
  private thought = "";
  private isRefused = false;
  private usage: MeteredUsage | null = null;
  private finish: Finish = { reason: "stop", stopSequence: null };

  constructor(
    private readonly context: AnswerContext,
    private readonly framing: ResponseFraming,
  ) {
    this.type = framing.type;
  }

  get place(): StreamPlace | null {
    return this.written === 0 ? null : { id: this.context.idSeed, sequence: this.written - 1 };
  }

  write(parts: readonly StreamPart[]): Uint8Array {
    if (this.ended) return nothing;
    for (const part of parts) this.add(part);
    return this.parts.length === 0 ? nothing : this.frame(null);
  }

  /** There is no end mark: the last response has the reason, and the usage. */
  end(): Uint8Array {
    if (this.ended) return nothing;
    this.ended = true;
    this.flushCalls();
    return this.frame({
      finishReason: finishReason(this.finish, this.isRefused),
      usage: usageMetadata(this.usage, this.context, this.characters),
    });
  }

  private frame(end: ResponseEnd | null): Uint8Array {
    const { parts, framing } = this;
    this.parts = [];
    const response = JSON.stringify(responseOf(parts, this.model, this.context, end));
    return encoder.encode(framing.before(this.written++) + response + framing.after(end !== null));
  }

  private add(part: StreamPart): void {
    switch (part.kind) {
      case "start":
        this.model ??= part.model;
        // A signature covers what its own channel said and thought.
        this.said = this.thought = "";
        this.thoughts.clear();
        return;
      case "text":
      case "refusal":
        if (part.text === "") return;
        this.flushCompleteCalls();
        this.isRefused ||= part.kind === "refusal";
        this.characters += part.text.length;
        if (this.context.seal !== null) this.said += part.text;
        this.parts.push({ text: part.text });
        return;
      case "reasoning":
        if (part.text === "") return;
        this.flushCompleteCalls();
        this.characters += part.text.length;
        if (this.context.seal !== null) this.thought += part.text;
        this.parts.push({ text: part.text, thought: true });
        return;
      case "reasoning_signature": {
        const { signature, redacted } = part;
        const signed = {
          kind: "reasoning",
          text: redacted ? "" : this.thought,
          signature,
          ...(redacted ? { redacted } : undefined),
        } as const;
        if (!redacted) this.thought = "";
        this.parts.push(...this.thoughts.note(signed, thoughtJson(signed, this.context).flatMap(signatureAlone)));
        return;
      }
      case "text_signature":
        this.parts.push(...textJson({ kind: "text", text: this.said, signature: part.signature }, this.context).flatMap(signatureAlone));
        this.said = "";
        return;
      case "tool_call": {
        const { index, ...call } = part;
        // The upstream used its number before: that call has got all it will get.
        this.flushCall(index);
        const progress = part.custom === true ? null : new JsonProgress();
        this.calls.set(index, { call, index: this.callCount++, args: "", progress });
        return;
      }
      case "tool_arguments":
        return this.addArguments(part.index, part.text);
      case "citations":
      case "passed_block":
      case "sources":
        return;
      case "usage":
        this.usage = part.usage;
        return;
      case "finish":
        this.finish = part.finish;
        return this.flushCalls();
    }
  }

  private addArguments(index: number, text: string): void {
    const call = this.calls.get(index);
    if (call === undefined) return;
    this.characters += text.length;
    call.args += call.progress === null ? text : call.progress.take(text);
  }

  /** Before something else is said. A call whose arguments go on after that waits for them, and so do those behind it. */
  private flushCompleteCalls(): void {
    for (const [index, { progress }] of this.calls) {
      if (progress?.isComplete !== true) return;
      this.flushCall(index);
    }
  }

  private flushCalls(): void {
    for (const index of [...this.calls.keys()]) this.flushCall(index);
  }

  private flushCall(index: number): void {
    const open = this.calls.get(index);
    if (open === undefined) return;
    this.calls.delete(index);
    this.parts.push(this.thoughts.on(callJson({ ...open.call, arguments: open.args }, open.index, this.context)));
  }
}

/** The text of a signed part has been sent: its signature follows on an empty one. */
function signatureAlone(part: JsonObject): readonly JsonObject[] {
  return "thoughtSignature" in part ? [{ ...part, text: "" }] : [];
}

const nothing = new Uint8Array(0);
const encoder = new TextEncoder();
