import type { CitedPage, Finish, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Part, ProviderValue } from "../../operations/conversation/conversation.ts";
import type { AnswerContext, AnswerWriter, StreamPlace } from "../../operations/conversation/surface.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { JsonProgress } from "../json-progress.ts";
import {
  annotationsOf,
  callIdOf,
  callItem,
  carrierItem,
  incompleteReason,
  itemId,
  keepOutput,
  messageItem,
  reasoningItem,
  responseId,
  responseObject,
  sealedOf,
  textContent,
  type Item,
  type ItemCall,
  type ItemStatus,
} from "./response.ts";

/**
 * An item that is being written. Texts and thoughts follow one another. Several calls may be open at a time, also beside a text: their
 * arguments may go on after it.
 */
interface OpenItem {
  readonly kind: "text" | "refusal" | "reasoning" | "call";
  readonly id: string;
  /** The number of the item in the output. */
  readonly index: number;
  text: string;
  readonly call: Omit<ItemCall, "arguments"> | null;
  /** Of a call: how much of its arguments has come. Null where they are a free text, of which nobody knows where it ends. */
  readonly progress: JsonProgress | null;
  signature: ProviderValue | null;
  readonly annotations: Item[];
}

/** Writes the events of one response. */
export class ResponsesWriter implements AnswerWriter {
  readonly type = "text/event-stream; charset=utf-8";
  private frames = "";
  private sequence = 0;
  private begun = false;
  private ended = false;
  private model: string | null = null;
  private readonly output: Item[] = [];
  private items = 0;
  /** How much text there is, and where that of the present channel begins. */
  private characters = 0;
  private base = 0;
  /** The text or the thought that is being written. */
  private open: OpenItem | null = null;
  /** The calls by the number that the upstream gave them. */
  private readonly calls = new Map<number, OpenItem>();
  private finish: Finish = { reason: "stop", stopSequence: null };
  private usage: MeteredUsage | null = null;

  /** The id of the response. */
  private id: string;

  constructor(private readonly context: AnswerContext) {
    this.id = responseId(context);
  }

  get place(): StreamPlace | null {
    return this.begun ? { id: this.id, sequence: this.sequence - 1 } : null;
  }

  resume({ id, sequence, resume }: StreamPlace, text: string): void {
    if (this.begun || resume == null) return;
    this.begun = true;
    this.id = id;
    this.sequence = sequence + 1;
    this.output.push(...resume.items);
    this.items = resume.items.length;
    if (resume.message === null) return;
    this.open = {
      kind: "text",
      id: resume.message.id,
      index: this.items++,
      text,
      call: null,
      progress: null,
      signature: null,
      annotations: [],
    };
  }

  write(parts: readonly StreamPart[]): Uint8Array {
    if (this.ended) return nothing;
    for (const part of parts) this.add(part);
    return this.takeFrames();
  }

  end(): Uint8Array {
    if (this.ended) return nothing;
    this.begin();
    const status = incompleteReason(this.finish) === null ? "completed" : "incomplete";
    // A text that is open began after all of the calls.
    this.closeCalls(status);
    this.closeOpen(status);
    this.ended = true;
    const { model, finish, usage } = this;
    const stored = keepOutput(this.context, this.output);
    const facts = { model, output: this.output, finish, usage, status: null, stored };
    const response: Item = { ...responseObject(this.context, facts), id: this.id };
    this.event(response["status"] === "incomplete" ? "response.incomplete" : "response.completed", { response });
    return this.takeFrames();
  }

  private takeFrames(): Uint8Array {
    if (this.frames === "") return nothing;
    const bytes = encoder.encode(this.frames);
    this.frames = "";
    return bytes;
  }

  private add(part: StreamPart): void {
    if (part.kind === "start" && !this.begun) this.model = part.model;
    this.begin();
    switch (part.kind) {
      case "start":
        // A thought that broke off has no signature, and gets none of another channel.
        if (this.open?.kind === "reasoning") this.closeOpen();
        this.base = this.characters;
        return;
      case "text_signature":
        return this.signText(part.signature);
      case "citations":
      case "passed_block":
        return;
      case "sources":
        return this.annotate(part.sources);
      case "text":
      case "refusal":
        return this.addText(part.kind, part.text);
      case "reasoning":
        return this.addThought(part.text);
      case "reasoning_signature":
        return part.redacted ? this.addRedacted(part.signature) : this.sign(part.signature);
      case "tool_call":
        return this.addCall(part);
      case "tool_arguments":
        return this.addArguments(part.index, part.text);
      case "usage":
        this.usage = part.usage;
        return;
      case "finish":
        this.finish = part.finish;
    }
  }

  private begin(): void {
    if (this.begun) return;
    this.begun = true;
    const stored = this.context.keep !== undefined;
    const facts = { model: this.model, output: [], finish: null, usage: null, status: "in_progress", stored } as const;
    const response = responseObject(this.context, facts);
    this.event("response.created", { response });
    this.event("response.in_progress", { response });
  }

  private addText(kind: "text" | "refusal", text: string): void {
    if (text === "") return;
    const item = this.openItem(kind);
    item.text += text;
    if (kind === "text") this.characters += text.length;
    this.event(kind === "text" ? "response.output_text.delta" : "response.refusal.delta", {
      ...placeOf(item),
      content_index: 0,
      delta: text,
      ...(kind === "text" ? { logprobs: [] } : undefined),
    });
  }

  /** To the message that is being written. What is told about one that is complete comes too late for its client. */
  private annotate(sources: readonly CitedPage[]): void {
    const item = this.open;
    if (item?.kind !== "text") return;
    const before = this.characters - item.text.length - this.base;
    for (const annotation of annotationsOf(sources, before, item.text.length)) {
      this.event("response.output_text.annotation.added", {
        ...placeOf(item),
        content_index: 0,
        annotation_index: item.annotations.length,
        annotation,
      });
      item.annotations.push(annotation);
    }
  }

  private addThought(text: string): void {
    if (text === "") return;
    const item = this.openItem("reasoning");
    if (item.text === "") {
      this.event("response.reasoning_summary_part.added", { ...placeOf(item), summary_index: 0, part: { type: "summary_text", text: "" } });
    }
    item.text += text;
    this.event("response.reasoning_summary_text.delta", { ...placeOf(item), summary_index: 0, delta: text });
  }

  private signText(signature: ProviderValue): void {
    const text = this.open?.kind === "text" ? this.open.text : "";
    this.closeOpen();
    this.carry({ kind: "text", text, signature });
  }

  private addRedacted(signature: ProviderValue): void {
    this.closeOpen();
    this.carry({ kind: "reasoning", text: "", signature, redacted: true });
  }

  private carry(part: Part): void {
    const index = this.items;
    for (const item of carrierItem(this.context, index, part)) {
      this.items++;
      this.event("response.output_item.added", { output_index: index, item: reasoningItem(this.context, index, "", null) });
      this.done(index, item);
    }
  }

  private sign(signature: ProviderValue): void {
    this.openItem("reasoning").signature = signature;
    this.closeOpen();
  }

  private openItem(kind: "text" | "refusal" | "reasoning"): OpenItem {
    if (this.open?.kind === kind) return this.open;
    this.closeCompleteCalls();
    this.closeOpen();
    const index = this.items++;
    const id = itemId(kind === "reasoning" ? "rs_sluice" : "msg", this.context, index);
    const item: OpenItem = { kind, id, index, text: "", call: null, progress: null, signature: null, annotations: [] };
    this.open = item;
    const begun = kind === "reasoning" ? reasoningItem(this.context, index, "", null) : messageItem(this.context, index, "in_progress", []);
    this.event("response.output_item.added", { output_index: index, item: begun });
    if (kind !== "reasoning") this.event("response.content_part.added", { ...placeOf(item), content_index: 0, part: contentOf(kind, "") });
    return item;
  }

  private closeOpen(status: ItemStatus = "completed"): void {
    const item = this.open;
    this.open = null;
    if (item === null || item.kind === "call") return;
    if (item.kind === "reasoning") return this.closeThought(item);
    const part = item.kind === "text" ? textContent(item.text, item.annotations) : contentOf(item.kind, item.text);
    const text = item.kind === "text" ? { text: item.text, logprobs: [] } : { refusal: item.text };
    this.event(item.kind === "text" ? "response.output_text.done" : "response.refusal.done", {
      ...placeOf(item),
      content_index: 0,
      ...text,
    });
    this.event("response.content_part.done", { ...placeOf(item), content_index: 0, part });
    this.done(item.index, { ...messageItem(this.context, item.index, status, [part]), id: item.id });
  }

  private closeThought(item: OpenItem): void {
    if (item.text !== "") {
      this.event("response.reasoning_summary_text.done", { ...placeOf(item), summary_index: 0, text: item.text });
      const part = { type: "summary_text", text: item.text };
      this.event("response.reasoning_summary_part.done", { ...placeOf(item), summary_index: 0, part });
    }
    const sealed = sealedOf({ kind: "reasoning", text: item.text, signature: item.signature }, this.context);
    this.done(item.index, reasoningItem(this.context, item.index, item.text, sealed));
  }

  private addCall(part: Extract<StreamPart, { kind: "tool_call" }>): void {
    this.closeOpen();
    const before = this.calls.get(part.index);
    if (before !== undefined) this.closeCall(before);
    const { name, namespace, custom, search, signature } = part;
    const id = callIdOf(part.id, this.context, this.items);
    if (signature !== undefined) this.carry({ kind: "tool_call", id, name, arguments: "", signature });
    const index = this.items++;
    const call = {
      id,
      name,
      ...(namespace === undefined ? undefined : { namespace }),
      ...(custom === true ? { custom } : undefined),
      ...(search === true ? { search } : undefined),
    };
    const item: OpenItem = {
      kind: "call",
      id: itemId(custom === true ? "ctc" : search === true ? "tsc" : "fc", this.context, index),
      index,
      text: "",
      call,
      progress: custom === true ? null : new JsonProgress(),
      signature: null,
      annotations: [],
    };
    this.calls.set(part.index, item);
    this.event("response.output_item.added", {
      output_index: index,
      item: callItem(this.context, index, { ...call, arguments: "" }, "in_progress"),
    });
  }

  private addArguments(number: number, text: string): void {
    const item = this.calls.get(number);
    if (item === undefined) return;
    const piece = item.progress === null ? text : item.progress.take(text);
    if (piece === "") return;
    item.text += piece;
    // A search comes as a whole: there are no events for its arguments.
    if (item.call?.search !== true) this.event(`${eventsOf(item)}.delta`, { ...placeOf(item), delta: piece });
  }

  private closeCompleteCalls(): void {
    for (const [number, item] of this.calls) {
      if (item.progress?.isComplete !== true) continue;
      this.calls.delete(number);
      this.closeCall(item);
    }
  }

  /** `last`: the status of the last item, and of a call in whose arguments the answer ended; the others are complete. */
  private closeCalls(last: ItemStatus): void {
    for (const item of this.calls.values()) {
      const isCut = item.progress?.isObject === true && !item.progress.isComplete;
      this.closeCall(item, isCut || item.index === this.items - 1 ? last : "completed");
    }
    this.calls.clear();
  }

  private closeCall(item: OpenItem, status: ItemStatus = "completed"): void {
    const custom = item.call!.custom === true;
    const text = item.text === "" && !custom ? "{}" : item.text;
    if (item.call!.search !== true) {
      this.event(`${eventsOf(item)}.done`, {
        ...placeOf(item),
        ...(custom ? { input: text } : { name: item.call!.name, arguments: text }),
      });
    }
    this.done(item.index, callItem(this.context, item.index, { ...item.call!, arguments: text }, status));
  }

  private done(index: number, item: Item): void {
    this.output[index] = item;
    this.event("response.output_item.done", { output_index: index, item });
  }

  private event(type: string, fields: Item): void {
    this.frames += `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: this.sequence++, ...fields })}\n\n`;
  }
}

function placeOf({ id, index }: OpenItem): Item {
  return { item_id: id, output_index: index };
}

function contentOf(kind: "text" | "refusal", text: string): Item {
  return kind === "text" ? textContent(text) : { type: "refusal", refusal: text };
}

function eventsOf({ call }: OpenItem): string {
  return call?.custom === true ? "response.custom_tool_call_input" : "response.function_call_arguments";
}

const nothing = new Uint8Array(0);
const encoder = new TextEncoder();
