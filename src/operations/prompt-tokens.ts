import type { JsonSpan } from "./json.ts";
import { base64In, fileBytesPerToken, imageTokens, type Base64String } from "./prompt-media.ts";
import { bytesPerToken } from "./request-fields.ts";

/**
 * Roughly how many tokens the parts of a request have that a model of the OpenAI API reads. Limits, budgets and sizes of contexts are
 * compared with it, so an image or a recording must not count as the text that its base64 would be.
 */
export function promptTokens(body: Uint8Array, parts: readonly (JsonSpan | undefined)[]): number {
  let bytes = 0;
  let tokens = 0;
  for (const part of parts) {
    if (part === undefined) continue;
    bytes += part.end - part.start;
    for (const found of base64In(body, part.start, part.end)) {
      const media = mediaTokens(body, found);
      if (media === null) continue;
      bytes -= found.close - found.open;
      tokens += media;
    }
  }
  return Math.ceil(bytes / bytesPerToken) + tokens;
}

/** Null for base64 that is text to the model, because it does not stand where media do. */
function mediaTokens(body: Uint8Array, { open, close }: Base64String): number | null {
  const before = decoder.decode(body.subarray(Math.max(0, open - nameBytes), open));
  const [, name] = /"(url|image_url|file_data|data)"\s*:\s*$/.exec(before) ?? [];
  if (name === undefined) return null;
  if (name === "data") return Math.ceil((close - open) / soundBytesPerToken);
  const isImage = imageUrl.test(decoder.decode(body.subarray(open, open + nameBytes)));
  return isImage ? imageTokens : Math.ceil((close - open) / fileBytesPerToken);
}

/** Some languages escape slashes in JSON. */
const imageUrl = /^"data:image\\?\//i;
const nameBytes = 64;
/** Speech has 16 kbit/s at least, and models count ten to twenty tokens a second. */
const soundBytesPerToken = 128;
const decoder = new TextDecoder();
