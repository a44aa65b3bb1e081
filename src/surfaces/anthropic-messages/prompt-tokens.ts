import type { JsonMember } from "../../operations/json.ts";
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

/**
 * The strings of base64 that stand beside the word `base64`. To look for them by their structure would take several passes over what is
 * mostly one image. A few bytes here and there tell as well: hardly any text goes on for long without a space or a quote.
 */
function mediaIn(body: Uint8Array, start: number, end: number): Media {
  let bytes = 0;
  let tokens = 0;
  for (let at = start + stepBytes; at + sampleBytes < end; at += stepBytes) {
    if (!isBase64(body, at)) continue;
    const open = body.lastIndexOf(quote, at);
    const close = body.indexOf(quote, at);
    // The digits of a number look the same, and no quote need follow them.
    if (close === -1 || close >= end) break;
    const before = decoder.decode(body.subarray(Math.max(start, open - nearBytes), open));
    const after = decoder.decode(body.subarray(close, Math.min(end, close + nearBytes)));
    const near = before + after;
    if (near.includes('"base64"')) {
      bytes += close - open;
      tokens += near.includes('"image/') ? imageTokens : Math.ceil((close - open) / fileBytesPerToken);
    }
    at = close;
  }
  return { bytes, tokens };
}

function isBase64(body: Uint8Array, from: number): boolean {
  for (let at = from; at < from + sampleBytes; at++) if (base64[body[at]!] !== 1) return false;
  return true;
}

/** Whatever is longer than two steps is found. */
const stepBytes = 2048;
const sampleBytes = 64;
/** Where the other fields of a source stand. */
const nearBytes = 128;
const quote = 0x22;
const decoder = new TextDecoder();

const base64 = new Uint8Array(256);
for (const character of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") base64[character.charCodeAt(0)] = 1;

/** What a large image costs at most; larger ones are scaled down to that. */
const imageTokens = 1600;
/** A page of a PDF has some 2,000 tokens, and some 60 KiB. */
const fileBytesPerToken = 32;
