import type { ResumePoint } from "../../operations/conversation/surface.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { textOf } from "../untrusted.ts";

/**
 * Notes how far a stream has come that is passed on as it is, so that another channel can go on with its text. That is possible between
 * the thoughts before it, and inside of the one message: an item that has half come otherwise cannot be completed by another channel.
 */
export class ItemProgress {
  point: ResumePoint | null = { items: [], message: null };
  private readonly items: JsonObject[] = [];
  private id = "";
  private hasMessage = false;

  read(type: string, event: JsonObject): void {
    switch (type) {
      case "response.output_item.added":
        return this.begin(event);
      case "response.content_part.added":
        return this.open(event);
      case "response.output_text.done":
      case "response.content_part.done":
        this.point = null;
        return;
      case "response.output_item.done":
        return this.end(event);
    }
  }

  private begin({ item, output_index: index }: JsonObject): void {
    this.id = isJsonObject(item) && item["type"] === "message" && index === this.items.length ? textOf(item["id"]) : "";
    this.point = null;
  }

  private open({ content_index: index, item_id: id, part }: JsonObject): void {
    const isText = isJsonObject(part) && part["type"] === "output_text";
    const goesOn = isText && index === 0 && this.id !== "" && id === this.id && !this.hasMessage;
    this.point = goesOn ? { items: [...this.items], message: { id: this.id } } : null;
  }

  private end({ item, output_index: index }: JsonObject): void {
    const isInOrder = isJsonObject(item) && index === this.items.length && this.items.length < itemsMax;
    this.hasMessage ||= !isInOrder || item["type"] !== "reasoning";
    if (isInOrder) this.items.push(item);
    this.point = this.hasMessage ? null : { items: [...this.items], message: null };
  }
}

/** More thoughts than any answer has before its text. */
const itemsMax = 64;
