import type { JsonMember } from "../../operations/json.ts";
import { base64In, fileBytesPerToken, imageTokens } from "../../operations/prompt-media.ts";
import { bytesPerToken, field } from "../../operations/request-fields.ts";

/**
 * Roughly how many tokens the prompt of a request has. Clients see it: it is the first count of a stream, and the answer to a request to
 * count, after which some shorten their conversation. So the bytes of images and files, which say little about tokens, are not counted as text.
 */
export function promptTokens(body: Uint8Array, members: readonly JsonMember[]): number {
  let bytes = 0;
  let tokens = 0;
  for (const key of promptFields) {
    const member = field(members, key);
    if (member === undefined) continue;
    bytes += member.end - member.start;
    if (key !== "messages") continue;
    const media = mediaIn(body, member.start, member.end);
    bytes -= media.bytes;
    tokens += media.tokens;
  }
  return Math.ceil(bytes / bytesPerToken) + tokens;
}

const promptFields = ["system", "tools", "messages"] as const;

interface Media {
  readonly bytes: number;
  readonly tokens: number;
}

/** The strings of base64 that stand beside the word `base64`. */
function mediaIn(body: Uint8Array, start: number, end: number): Media {
  let bytes = 0;
  let tokens = 0;
  for (const { open, close } of base64In(body, start, end)) {
    const before = decoder.decode(body.subarray(Math.max(start, open - nearBytes), open));
    const after = decoder.decode(body.subarray(close, Math.min(end, close + nearBytes)));
    const near = before + after;
    if (!near.includes('"base64"')) continue;
    bytes += close - open;
    tokens += near.includes('"image/') ? imageTokens : Math.ceil((close - open) / fileBytesPerToken);
  }
  return { bytes, tokens };
}

/** Where the other fields of a source stand. */
const nearBytes = 128;
const decoder = new TextDecoder();
