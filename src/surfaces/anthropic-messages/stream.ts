import type { Finish, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Part } from "../../operations/conversation/conversation.ts";
import type { AnswerContext, AnswerWriter } from "../../operations/conversation/surface.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { JsonProgress } from "../json-progress.ts";
import {
  callId,
  citationsOf,
  freeInputJson,
  inputJson,
  messageId,
  messageJson,
  messageUsage,
  outputTokens,
  redactedBlock,
  signatureText,
  stopOf,
  textBlock,
  thinkingBlock,
  toolUseBlock,
} from "./message.ts";

/**
 * A block of the answer. The first one of the queue is on its way to the client; what the others are made of waits in them, because the
 * blocks of a stream must follow one another.
 */
interface OpenBlock {
  readonly kind: "text" | "refusal" | "thinking" | "redacted" | "call";
  /** The block as it begins, in JSON. */
  readonly start: string;
  /** Its deltas that were not sent yet, in JSON. */
  readonly waiting: string[];
  /** Its text so far, where it may have to be sealed. */
  text: string;
  /** Nothing is added to it any more. */
  closed: boolean;
  /** Of a call: how much of its arguments has come. Null where they are a free text. */
  readonly progress: JsonProgress | null;
  /** Of a call: arguments that are no object, at least not yet. */
  held: string;
}

/** Writes the events of one answer. */
export class MessagesWriter implements AnswerWriter {
  readonly type = "text/event-stream; charset=utf-8";
  private frames = "";
  private begun = false;
  private ended = false;
  private readonly queue: OpenBlock[] = [];
  /** The number of the first block of the queue. */
  private index = 0;
  /** The calls by the number that the upstream gave them. */
  private readonly calls = new Map<number, OpenBlock>();
  private callCount = 0;
  private characters = 0;
  private refusal: string | null = null;
  private usage: MeteredUsage | null = null;
  private finish: Finish = { reason: "stop", stopSequence: null };

  constructor(private readonly context: AnswerContext) {}

  write(parts: readonly StreamPart[]): Uint8Array {
    if (this.ended) return nothing;
    for (const part of parts) this.add(part);
    return this.takeFrames();
  }

  end(): Uint8Array {
    if (this.ended) return nothing;
    this.begin(null);
    this.closeAll();
    const stop = stopOf(this.finish, this.callCount > 0, this.refusal);
    const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens, output_tokens_details, server_tool_use } =
      messageUsage(this.usage, this.context.request.promptTokensEstimate, outputTokens(this.characters));
    const usage = {
      ...{ input_tokens, cache_creation_input_tokens, cache_read_input_tokens },
      ...{ output_tokens, output_tokens_details, server_tool_use },
    };
    this.event("message_delta", `"delta":${JSON.stringify({ ...stop, container: null })},"usage":${JSON.stringify(usage)}`);
    this.frames += messageStop;
    this.ended = true;
    return this.takeFrames();
  }

  private takeFrames(): Uint8Array {
    if (this.frames === "") return nothing;
    const bytes = encoder.encode(this.frames);
    this.frames = "";
    return bytes;
  }

  private add(part: StreamPart): void {
    // Another channel that goes on with the answer begins anew; the client's message has begun.
    this.begin(part.kind === "start" ? part.model : null);
    switch (part.kind) {
      case "start":
        // A thought that broke off has no signature, and gets none of another channel.
        return this.closeLast("thinking");
      case "text":
        return this.addText("text", part.text);
      case "refusal":
        if (part.text !== "") this.refusal = (this.refusal ?? "") + part.text;
        return this.addText("refusal", part.text);
      case "reasoning":
        return this.addThought(part.text);
      case "reasoning_signature":
        return part.redacted ? this.addRedacted(part) : this.sign(part);
      case "text_signature":
        return this.signText(part);
      // A citation of this API has more to it than the address of a page.
      case "sources":
        return;
      case "tool_call":
        return this.addCall(part);
      case "tool_arguments":
        return this.addArguments(part.index, part.text);
      case "citations":
        for (const citation of citationsOf(part.citations) ?? []) {
          this.put(this.openBlock("text"), `{"type":"citations_delta","citation":${JSON.stringify(citation)}}`);
        }
        return;
      case "passed_block":
        this.closeAll();
        this.index++;
        return;
      case "usage":
        this.usage = part.usage;
        return;
      case "finish":
        this.finish = part.finish;
        return this.closeAll();
    }
  }

  private begin(model: string | null): void {
    if (this.begun) return;
    this.begun = true;
    const { request } = this.context;
    const usage = messageUsage(null, request.promptTokensEstimate, 0);
    const message = messageJson({ id: messageId(this.context), model: model ?? request.model, content: "", stop: null, usage });
    this.event("message_start", `"message":${message}`);
  }

  private addText(kind: "text" | "refusal", text: string): void {
    if (text === "") return;
    this.characters += text.length;
    const block = this.openBlock(kind);
    if (this.context.seal !== null) block.text += text;
    this.put(block, `{"type":"text_delta","text":${JSON.stringify(text)}}`);
  }

  private addThought(text: string): void {
    if (text === "") return;
    this.characters += text.length;
    const block = this.openBlock("thinking");
    if (this.context.seal !== null) block.text += text;
    this.put(block, `{"type":"thinking_delta","thinking":${JSON.stringify(text)}}`);
  }

  private sign({ signature }: Extract<StreamPart, { kind: "reasoning_signature" }>): void {
    const last = this.queue.at(-1);
    const isOpen = last?.kind === "thinking" && !last.closed;
    const part: Part = { kind: "reasoning", text: isOpen ? last.text : "", signature };
    const text = signatureText(signature, part, this.context);
    if (text !== "") this.put(this.openBlock("thinking"), `{"type":"signature_delta","signature":${JSON.stringify(text)}}`);
    this.closeLast("thinking");
  }

  private addRedacted({ signature }: Extract<StreamPart, { kind: "reasoning_signature" }>): void {
    const part: Part = { kind: "reasoning", text: "", signature, redacted: true };
    const data = signatureText(signature, part, this.context);
    if (data !== "") this.push(blockOf("redacted", redactedBlock(data)));
  }

  /** A signature on a text has no place of its own here: it is carried beside it, and so is that of a call. */
  private signText({ signature }: Extract<StreamPart, { kind: "text_signature" }>): void {
    const last = this.queue.at(-1);
    const text = last?.kind === "text" && !last.closed ? last.text : "";
    this.closeLast("text");
    this.pushSealed({ kind: "text", text, signature });
  }

  private pushSealed(part: Part): void {
    const data = this.context.seal?.(part) ?? "";
    if (data !== "") this.push(blockOf("redacted", redactedBlock(data)));
  }

  private addCall({ index, id, name, custom, signature }: Extract<StreamPart, { kind: "tool_call" }>): void {
    const known = callId(id, this.callCount, this.context);
    this.callCount++;
    // The upstream used its number before: that call has got all it will get.
    const before = this.calls.get(index);
    if (before !== undefined) before.closed = true;
    if (signature !== undefined) this.pushSealed({ kind: "tool_call", id: known, name, arguments: "", signature });
    const block = blockOf("call", toolUseBlock(known, name, "{}"), custom === true ? null : new JsonProgress());
    this.calls.set(index, block);
    this.push(block);
  }

  private addArguments(index: number, text: string): void {
    const block = this.calls.get(index);
    if (block === undefined || block.closed) return;
    this.characters += text.length;
    const { progress } = block;
    if (progress === null) {
      block.held += text;
      return;
    }
    const piece = progress.take(text);
    if (progress.isObject === true) {
      const all = block.held + piece;
      block.held = "";
      if (all !== "") this.put(block, inputDelta(all));
    } else block.held += piece;
    if (!progress.isComplete) return;
    block.closed = true;
    this.advance();
  }

  /** The last block where it is of this kind and open, else a new one. */
  private openBlock(kind: "text" | "refusal" | "thinking"): OpenBlock {
    const last = this.queue.at(-1);
    if (last?.kind === kind && !last.closed) return last;
    const block = blockOf(kind, kind === "thinking" ? thinkingBlock("", "") : textBlock("", null));
    this.push(block);
    return block;
  }

  private closeLast(kind: "text" | "thinking"): void {
    const last = this.queue.at(-1);
    if (last?.kind === kind) last.closed = true;
  }

  private push(block: OpenBlock): void {
    this.queue.push(block);
    if (this.queue.length === 1) this.start(block);
    else this.advance();
  }

  private put(block: OpenBlock, delta: string): void {
    if (block === this.queue[0]) this.delta(delta);
    else block.waiting.push(delta);
  }

  /** Ends blocks that another one follows, and starts those. A call waits for the rest of its arguments: those of several calls may interleave. */
  private advance(): void {
    for (;;) {
      const [first, next] = this.queue;
      if (first === undefined || next === undefined || (first.kind === "call" && !first.closed)) return;
      this.stop(first);
      this.start(next);
    }
  }

  private closeAll(): void {
    for (const block of this.queue) block.closed = true;
    this.advance();
    const last = this.queue[0];
    if (last !== undefined) this.stop(last);
  }

  private start(block: OpenBlock): void {
    this.event("content_block_start", `"index":${this.index},"content_block":${block.start}`);
    for (const delta of block.waiting) this.delta(delta);
    block.waiting.length = 0;
  }

  private stop(block: OpenBlock): void {
    const isFree = block.kind === "call" && block.progress === null;
    const input = isFree ? freeInputJson(block.held) : block.held === "" ? "{}" : inputJson(block.held);
    if (input !== "{}") this.delta(inputDelta(input));
    this.event("content_block_stop", `"index":${this.index}`);
    this.queue.shift();
    this.index++;
  }

  private delta(json: string): void {
    this.event("content_block_delta", `"index":${this.index},"delta":${json}`);
  }

  private event(type: string, fields: string): void {
    this.frames += `event: ${type}\ndata: {"type":"${type}",${fields}}\n\n`;
  }
}

function blockOf(kind: OpenBlock["kind"], start: string, progress: JsonProgress | null = null): OpenBlock {
  return { kind, start, waiting: [], text: "", closed: false, progress, held: "" };
}

function inputDelta(json: string): string {
  return `{"type":"input_json_delta","partial_json":${JSON.stringify(json)}}`;
}

const nothing = new Uint8Array(0);
const encoder = new TextEncoder();
const messageStop = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';

export const ping: Uint8Array = encoder.encode('event: ping\ndata: {"type": "ping"}\n\n');
