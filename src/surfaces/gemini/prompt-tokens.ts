import { elementsOf, membersOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { member } from "./names.ts";

/**
 * Roughly how many tokens the prompt of a request has. Clients see it: it is the answer to a request to count, after which some shorten
 * their conversation. So the bytes of images and files, which say little about tokens, are not counted as text.
 */
export function promptTokens(body: Uint8Array, members: readonly JsonMember[]): number {
  let bytes = 0;
  let tokens = 0;
  for (const name of ["systemInstruction", "tools", "contents"]) {
    const field = member(members, name);
    if (field === undefined) continue;
    bytes += field.end - field.start;
    // A shorter one holds no image that matters.
    if (name !== "contents" || field.kind !== "array" || field.end - field.start < mediaBytesMin) continue;
    for (const data of mediaIn(body, field)) {
      bytes -= data.end - data.start;
      tokens += data.isImage ? imageTokens : Math.ceil((data.end - data.start) / fileBytesPerToken);
    }
  }
  return Math.ceil(bytes / bytesPerToken) + tokens;
}

interface MediaSpan {
  readonly start: number;
  readonly end: number;
  readonly isImage: boolean;
}

function* mediaIn(body: Uint8Array, contents: JsonSpan): Iterable<MediaSpan> {
  for (const content of elementsOf(body, contents.start, contents.end)) {
    const parts = fieldOf(body, content, "parts");
    if (parts?.kind !== "array" || parts.end - parts.start < mediaBytesMin) continue;
    for (const part of elementsOf(body, parts.start, parts.end)) {
      if (part.end - part.start < mediaBytesMin) continue;
      const media = fieldOf(body, part, "inlineData");
      const data = media === undefined ? undefined : fieldOf(body, media, "data");
      if (media === undefined || data === undefined) continue;
      const type = fieldOf(body, media, "mimeType");
      const isImage = type !== undefined && decoder.decode(body.subarray(type.start, type.end)).startsWith('"image/');
      yield { start: data.start, end: data.end, isImage };
    }
  }
}

function fieldOf(body: Uint8Array, object: JsonSpan, name: string): JsonMember | undefined {
  return object.kind === "object" ? member(membersOf(body, object.start, object.end), name) : undefined;
}

const decoder = new TextDecoder();
const bytesPerToken = 4;
const mediaBytesMin = 4096;
/** A large image is several tiles of 258 tokens. */
const imageTokens = 1290;
/** A page of a PDF has 258 tokens as an image and some hundred as text, and some 60 KiB. */
const fileBytesPerToken = 64;
