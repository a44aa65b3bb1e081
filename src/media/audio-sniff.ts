import type { AudioFormat } from "./audio.ts";
import { hasTextAt, matchText } from "./containers/bytes.ts";
import { flacHeaderAt } from "./containers/flac-frame.ts";
import { flacBody } from "./containers/flac-metadata.ts";
import { id3TagBytes } from "./containers/id3.ts";
import { frameHeaderAt } from "./containers/mpeg-frame.ts";
import { oggHeadBytesMin, oggPageAt } from "./containers/ogg-page.ts";
import { wavData } from "./containers/wav.ts";

/** What the beginning of an answer is: audio whose first frame is there, not to be told yet, or no audio. */
export type Recognised = AudioFormat | "more" | { readonly wrong: string };

/** How much is looked at before a body is called nonsense. */
export const lookAheadBytesMax = 64 * 1024;

/**
 * Recognises audio by its own bytes, because what an answer is called proves nothing. `bytes` are all that came so far.
 * Bare samples have no mark of their own: only where they are to be expected, what is nothing else is taken for them.
 */
export function recognise(bytes: Uint8Array, { ended, bare }: { readonly ended: boolean; readonly bare: boolean }): Recognised {
  if (bytes.length === 0) return ended ? { wrong: "the answer is empty" } : "more";
  const found = marked(bytes, ended, bare);
  if (found === "no") return bare ? samples(bytes, ended) : { wrong: unknownOf(bytes) };
  if (found !== "more") return found;
  if (ended) return { wrong: "the answer ends before its first frame of audio" };
  return bytes.length < lookAheadBytesMax ? "more" : { wrong: "the answer has no audio in its first 64 KiB" };
}

function marked(bytes: Uint8Array, ended: boolean, bare: boolean): Recognised | "no" {
  switch (bytes[0]) {
    case 0x52:
      return behind(bytes, "RIFF", wav);
    case 0x4f:
      return behind(bytes, "OggS", oggOpus);
    case 0x66:
      return behind(bytes, "fLaC", flac);
    case 0x49:
      return behind(bytes, "ID3", (tagged) => taggedFrames(tagged, ended));
    case 0xff: {
      // Samples can look like a header, but hardly like three of them in the right places.
      const found = frames(bytes, ended, bare ? bareFramesMin : framesMin);
      return found === "more" && ended && bare ? "no" : found;
    }
    default:
      return "no";
  }
}

const framesMin = 2;
const bareFramesMin = 3;

/** Asks on if the bytes begin with the mark; if they are shorter than it, it may yet come. */
function behind(bytes: Uint8Array, mark: string, ask: (bytes: Uint8Array) => Recognised | "no"): Recognised | "no" {
  const match = matchText(bytes, 0, mark);
  return match === "yes" ? ask(bytes) : match;
}

/** The first frame and the header of the next, where the first says it is; a body may also be one frame and no more. */
function frames(bytes: Uint8Array, ended: boolean, headersMin: number): Recognised | "no" {
  const start = pastTags(bytes);
  if (typeof start !== "number") return start;
  const first = frameHeaderAt(bytes, start);
  if (typeof first === "string") return first;
  let at = start + first.lengthBytes;
  for (let count = 1; count < headersMin; count++) {
    if (ended && at === bytes.length && headersMin === framesMin) break;
    if (at >= bytes.length) return "more";
    const next = frameHeaderAt(bytes, at);
    if (typeof next === "string") return next;
    if (next.format !== first.format || next.signature !== first.signature) return "no";
    at += next.lengthBytes;
  }
  return first.format;
}

function taggedFrames(bytes: Uint8Array, ended: boolean): Recognised {
  const found = frames(bytes, ended, framesMin);
  return found === "no" ? { wrong: "the answer has a tag and no audio behind it" } : found;
}

/** The offset behind the ID3v2 tags that a stream of frames may begin with. */
function pastTags(bytes: Uint8Array): number | "more" | { readonly wrong: string } {
  let at = 0;
  for (;;) {
    const tagBytes = id3TagBytes(bytes, at);
    if (tagBytes === "more") return "more";
    if (tagBytes === "no") return hasTextAt(bytes, at, "ID3") ? { wrong: "the answer begins with a tag that has no length" } : at;
    at += tagBytes;
    if (at >= lookAheadBytesMax) return { wrong: "the answer begins with a tag that is too large" };
  }
}

function wav(bytes: Uint8Array): Recognised {
  const data = wavData(bytes);
  if (data === "more" || "wrong" in data) return data;
  return bytes.length >= data.start + data.blockBytes ? "wav" : "more";
}

/** The two packets that every such stream begins with, and the first one of audio behind them. */
function oggOpus(bytes: Uint8Array): Recognised {
  let packets = 0;
  let packetBytes = 0;
  let at = 0;
  for (;;) {
    const page = oggPageAt(bytes, at);
    if (page === "more") return "more";
    if (page === "no") return { wrong: "the answer is a broken Ogg stream" };
    const content = at + page.headBytes;
    if (at === 0) {
      const opus = page.begins ? matchText(bytes, content, "OpusHead") : "no";
      if (opus === "no") return { wrong: "the answer is an Ogg stream of something other than Opus" };
      if (opus === "more") return "more";
    }
    let position = content;
    for (let segment = at + oggHeadBytesMin; segment < content; segment++) {
      const length = bytes[segment]!;
      position += length;
      packetBytes += length;
      if (length === 255) continue;
      packets++;
      if (packets > headerPackets && packetBytes > 0) return position <= bytes.length ? "opus" : "more";
      packetBytes = 0;
    }
    at = content + page.contentBytes;
  }
}

const headerPackets = 2;

function flac(bytes: Uint8Array): Recognised {
  const body = flacBody(bytes);
  if (body === "more") return "more";
  if (body === "no") return { wrong: "the answer is a FLAC stream without its facts" };
  const frame = flacHeaderAt(bytes, body.start);
  if (frame === "no") return { wrong: "the answer is a broken FLAC stream" };
  return frame === "more" ? "more" : "flac";
}

/** Ten milliseconds of samples: enough to tell them from text. */
const samplesBytesMin = 480;

function samples(bytes: Uint8Array, ended: boolean): Recognised {
  if (bytes.length < samplesBytesMin && !ended) return "more";
  if (bytes.length < 2) return { wrong: "the answer is empty" };
  const isOther = strangers.some(({ at, mark }) => hasTextAt(bytes, at, mark));
  return isOther || isText(bytes.subarray(0, samplesBytesMin)) ? { wrong: unknownOf(bytes) } : "pcm";
}

/** What else a confused upstream may send. */
const strangers: readonly { readonly at: number; readonly mark: string }[] = [
  { at: 4, mark: "ftyp" },
  { at: 0, mark: "\u001aE\u00df\u00a3" },
  { at: 0, mark: "\u001f\u008b" },
  { at: 0, mark: "\u0089PNG" },
  { at: 0, mark: "%PDF" },
  { at: 0, mark: "PK\u0003\u0004" },
];

function unknownOf(bytes: Uint8Array): string {
  return isText(bytes.subarray(0, samplesBytesMin)) ? "the answer is text and not audio" : "the answer is no audio of a known format";
}

/** No speech has so loud a beginning that none of its bytes is a control character. */
function isText(bytes: Uint8Array): boolean {
  for (const byte of bytes) {
    const isControl = byte === 0x7f || (byte < 0x20 && byte !== 9 && byte !== 10 && byte !== 13);
    if (isControl) return false;
  }
  try {
    // A character that the sample cuts in two is not held against it.
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}
