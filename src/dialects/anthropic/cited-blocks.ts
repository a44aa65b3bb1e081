import type { CitedPage, StreamPart } from "../../operations/conversation/answer-parts.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { pagesMax } from "../translated/cited-pages.ts";
import { pageOf } from "./message-parts.ts";

/** The pages that a streamed text cites. They come before, between or after the pieces of the block that they are about. */
export class CitedBlocks {
  private characters = 0;
  private begun = 0;
  private citations: JsonObject[] = [];
  private told = 0;

  begin(): void {
    this.begun = this.characters;
    this.citations = [];
  }

  said(parts: readonly StreamPart[]): void {
    for (const part of parts) if (part.kind === "text") this.characters += part.text.length;
  }

  cite(citation: unknown): void {
    if (isJsonObject(citation) && this.told++ < pagesMax) this.citations.push(citation);
  }

  /** The pages of the block that is complete. */
  end(): readonly CitedPage[] {
    const pages = this.citations.flatMap((citation) => pageOf(citation, this.begun, this.characters) ?? []);
    this.citations = [];
    return pages;
  }
}
