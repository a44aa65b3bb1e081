import type { StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Part } from "../../operations/conversation/conversation.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import {
  argumentsOf,
  betweenPieces,
  encryptedIn,
  finishOf,
  isCall,
  itemsOf,
  partsOf,
  sourcesOf,
  thoughtOf,
  type DeclaredTools,
} from "./items.ts";
import { textOf, numberOf } from "../untrusted.ts";

/**
 * The parts of the events of a stream. An item comes twice, in its deltas and as a whole when it is done: what the deltas did not say
 * is taken from the whole, because some upstreams send no deltas.
 */
export class EventParts {
  private started = false;
  /** The items by their place in the output. Ids are no key: some upstreams change them between events. */
  private readonly items = new Map<number, StreamedItem>();
  private characters = 0;
  private calls = 0;
  /** The calls by their `call_id`. A call may have several: some upstreams change that as well. */
  private readonly callsById = new Map<string, StreamedItem>();
  private lastText: StreamedItem | null = null;
  private lastThought: string | null = null;

  constructor(private readonly tools: DeclaredTools) {}

  /** What an event says. Null: there are more items than any answer has. */
  read(type: string, event: JsonObject): readonly StreamPart[] | null {
    const parts: StreamPart[] = [];
    const { response } = event;
    if (!this.started) {
      this.started = true;
      parts.push(startOf(isJsonObject(response) ? response : nothing));
    }
    const place = numberOf(event["output_index"]) ?? 0;
    const item = this.items.get(place) ?? newItem();
    if (!this.items.has(place) && type.startsWith("response.") && "output_index" in event) {
      if (this.items.size >= itemsMax) return null;
      this.items.set(place, item);
    }
    const delta = textOf(event["delta"]);
    switch (type) {
      case "response.output_item.added":
        if (isJsonObject(event["item"])) this.begin(item, event["item"], parts);
        break;
      case "response.output_text.delta":
        this.text(item, delta, parts);
        break;
      case "response.refusal.delta":
        if (delta !== "") parts.push({ kind: "refusal", text: delta });
        item.length += delta.length;
        break;
      case "response.reasoning_summary_text.delta":
        this.thought(item, delta, `${place} ${numberOf(event["summary_index"])}`, true, parts);
        break;
      case "response.reasoning_text.delta":
        this.thought(item, delta, `${place} ${numberOf(event["content_index"])}`, false, parts);
        break;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        this.arguments(item, delta, parts);
        break;
      case "response.output_item.done":
        if (isJsonObject(event["item"])) this.end(item, event["item"], parts);
        break;
      case "response.completed":
      case "response.incomplete":
        if (isJsonObject(response)) this.finish(response, parts);
        break;
    }
    return parts;
  }

  private begin(item: StreamedItem, source: JsonObject, parts: StreamPart[]): void {
    if (!isCall(source) || item.call !== null) return;
    item.call = this.calls++;
    parts.push({ kind: "tool_call", index: item.call, id: this.noteId(item, source), ...this.tools.calledAs(source) });
  }

  private noteId(item: StreamedItem, source: JsonObject): string {
    const id = textOf(source["call_id"]);
    if (id !== "") this.callsById.set(id, item);
    return id;
  }

  private text(item: StreamedItem, text: string, parts: StreamPart[]): void {
    if (text === "") return;
    // Two messages in a row are two paragraphs where there can be only one message.
    const isAnother = this.lastText !== null && this.lastText !== item;
    this.lastText = item;
    item.length += text.length;
    const said = isAnother ? betweenPieces + text : text;
    this.characters += said.length;
    parts.push({ kind: "text", text: said });
  }

  /** `piece` names the piece of reasoning that the text belongs to: another one is another paragraph. */
  private thought(item: StreamedItem, text: string, piece: string, summary: boolean, parts: StreamPart[]): void {
    if (text === "") return;
    const isAnother = item.length > 0 && this.lastThought !== piece;
    this.lastThought = piece;
    item.length += text.length;
    parts.push({ kind: "reasoning", text: isAnother ? betweenPieces + text : text, ...(summary ? { summary } : undefined) });
  }

  private arguments(item: StreamedItem, text: string, parts: StreamPart[]): void {
    if (text === "" || item.call === null) return;
    item.length += text.length;
    parts.push({ kind: "tool_arguments", index: item.call, text });
  }

  /** What the whole item says beyond its deltas. */
  private end(item: StreamedItem, source: JsonObject, parts: StreamPart[]): void {
    if (item.done) return;
    item.done = true;
    if (isCall(source)) {
      this.begin(item, source, parts);
      this.noteId(item, source);
      this.arguments(item, argumentsOf(source).slice(item.length), parts);
    } else if (source["type"] === "reasoning") {
      const { text, summary } = thoughtOf(source);
      if (item.length === 0) this.thought(item, text, "", summary, parts);
      const signature = encryptedIn(source);
      if (signature !== null) parts.push({ kind: "reasoning_signature", signature, redacted: item.length === 0 });
    } else {
      if (item.length === 0) for (const part of partsOf(source, this.tools)) this.words(item, part, parts);
      const sources = sourcesOf(source, this.characters - item.length);
      if (sources.length > 0) parts.push({ kind: "sources", sources });
    }
  }

  private words(item: StreamedItem, part: Part, parts: StreamPart[]): void {
    if (part.kind === "text") this.text(item, part.text, parts);
    else if (part.kind === "refusal") parts.push({ kind: "refusal", text: part.text });
  }

  /**
   * Some upstreams tell the items of a short answer only here, or a call, or leave out that an item is done. Others number the items in
   * another way than in their events, and change a `call_id` between them: a call is the one of its `call_id` wherever it stands, else
   * the one at its place, and another one only while there are more calls than were told.
   */
  private finish(response: JsonObject, parts: StreamPart[]): void {
    const isUntold = this.items.size === 0;
    const sources = itemsOf(response).slice(0, itemsMax);
    const known = sources.map((source) => (isCall(source) ? (this.callsById.get(textOf(source["call_id"])) ?? null) : null));
    const named = new Set(known);
    const callsInEnd = sources.filter(isCall).length;
    for (const [place, source] of sources.entries()) {
      const isAnother = isUntold || (isCall(source) && this.calls < callsInEnd);
      const item = known[place] ?? this.toldAt(place, source, named) ?? (isAnother ? newItem() : null);
      if (item !== null) this.end(item, source, parts);
    }
    const { reason, stopSequence } = finishOf(response);
    const calls = reason === "stop" && this.calls > 0;
    parts.push({ kind: "finish", finish: { reason: calls ? "tool_calls" : reason, stopSequence } });
  }

  /** What the events told of an item at this place, unless that is known to be another item. */
  private toldAt(place: number, source: JsonObject, named: ReadonlySet<StreamedItem | null>): StreamedItem | null {
    const item = this.items.get(place);
    if (item === undefined || named.has(item)) return null;
    const isBlank = item.call === null && item.length === 0 && !item.done;
    return isBlank || (item.call !== null) === isCall(source) ? item : null;
  }
}

interface StreamedItem {
  /** The number of the call in the answer; null if it is none. */
  call: number | null;
  /** How many characters of it have come. */
  length: number;
  done: boolean;
}

function newItem(): StreamedItem {
  return { call: null, length: 0, done: false };
}

function startOf(response: JsonObject): StreamPart {
  return {
    kind: "start",
    id: textOf(response["id"]) || null,
    model: textOf(response["model"]) || null,
    createdSeconds: numberOf(response["created_at"]),
  };
}

/** More items than any answer has. */
const itemsMax = 4096;
const nothing: JsonObject = {};
