import type { AudioFormat } from "../../../src/media/audio.ts";
import type { Coding } from "./encoder.ts";

/** How a healthy answer is put on the wire. A fault either takes the answer over or changes the manner of it. */
export interface Manner {
  /** The words of the answer. */
  words: Words;
  tokens: number;
  /** Silence before the first token, or before the whole of an answer that is not streamed. */
  firstMs: number;
  paceMs: number;
  /** How many characters of the assistant's last message are said again before it is continued; null: start afresh. */
  continueWithOverlap: number | null;
  /** How many characters of its own broken answer it repeats, if it is asked to go on with it; null: it answers as if nobody had. */
  repeats: { readonly characters: number; readonly blank: string } | null;

  interims: number[];
  headers: [name: string, value: string][];
  /** Null leaves the header out; undefined is the right one. */
  contentType: string | null | undefined;
  framing: Framing | "fitting";
  codings: Coding[];
  /** What the content-encoding header says, where that is not the truth. */
  codingLabel: string | null;
  firstChunkExtensionBytes: number;
  /** A stream tells its length beforehand. */
  declared: boolean;
  /** Added to the content-length that would be true. */
  lengthSkew: number;
  /** Bytes that follow a whole answer on the same connection. */
  postscript: string;
  packet: "event" | "whole" | "byte";
  headByteMs: number;
  /** One event that is dripped byte by byte. */
  slowStep: { readonly index: number; readonly byteMs: number } | null;

  endOfLine: string;
  dataPrefix: string;
  byteOrderMark: boolean;
  splitsData: boolean;
  /** Lines set before the data of each event. */
  linesBefore: string[];
  finalBlankLine: boolean;
  /** An event sent as it is, before the step of that index. */
  interjection: { readonly index: number; readonly payload: string } | null;
  bytesOf: (text: string) => Uint8Array;

  finishReason: string | null | undefined;
  done: boolean;
  usage: "asked" | "missing" | "on-finish" | "twice";
  /** JSON text in place of each number of tokens. */
  usageNumber: string | null;

  /** Speech of another format than is asked for. */
  audioFormat: AudioFormat | null;
  /** Speech in events, or not, whatever is asked for. */
  events: boolean | null;
  /** A transcript of another format than is asked for. */
  transcriptFormat: string | null;
  /** Whether `srt` and `vtt` are what they should be, or plain JSON. */
  subtitles: boolean;
  /** Whether a transcript that could say when things were said does. */
  times: boolean;
}

export type Words = (index: number, choice: number) => string;
export type Framing = "chunked" | "length" | "close";

export function healthyManner(words: Words, defaults: Tempo): Manner {
  return {
    words,
    ...defaults,
    continueWithOverlap: null,
    repeats: null,
    interims: [],
    headers: [],
    contentType: undefined,
    framing: "fitting",
    codings: [],
    codingLabel: null,
    firstChunkExtensionBytes: 0,
    declared: false,
    lengthSkew: 0,
    postscript: "",
    packet: "event",
    headByteMs: 0,
    slowStep: null,
    endOfLine: "\n",
    dataPrefix: "data: ",
    byteOrderMark: false,
    splitsData: false,
    linesBefore: [],
    finalBlankLine: true,
    interjection: null,
    bytesOf: (text) => Buffer.from(text),
    finishReason: undefined,
    done: true,
    usage: "asked",
    usageNumber: null,
    audioFormat: null,
    events: null,
    transcriptFormat: null,
    subtitles: true,
    times: true,
  };
}

export interface Tempo {
  readonly tokens: number;
  readonly firstMs: number;
  readonly paceMs: number;
}

/** Words that show which attempt and choice they come from: `a7:0 a7:1`, and `a7.1:0` for the second choice. */
export function taggedWords(attemptId: string): Words {
  return (index, choice) => `${index === 0 ? "" : " "}${attemptId}${choice === 0 ? "" : `.${choice}`}:${index}`;
}

/** Words that are equal on every instance. */
export const sameWords: Words = (index) => `${index === 0 ? "" : " "}word${index}`;

/** Words that are equal in every attempt on one instance, and differ from those of the others. */
export function ownWords(instance: string): Words {
  return (index) => `${index === 0 ? "" : " "}${instance}-word${index}`;
}
