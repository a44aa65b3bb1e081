import type { UpstreamHead, EncodedRequest, StreamedBody, Target } from "../../src/dialects/dialect.ts";
import type { Address, Capabilities, Quirks } from "../../src/channels/channel.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import type { FormField, FormFile, StoredFile } from "../../src/media/stored-file.ts";
import { readTranscriptionRequest, type TranscriptionRequest } from "../../src/operations/transcription/transcription-request.ts";
import type { TranscriptFormat } from "../../src/operations/transcription/transcript.ts";
import type { WholeAnswer } from "../../src/operations/emission.ts";
import { channel } from "./plan-world.ts";

/** Builders for the tests of transcriptions: requests, targets, and a second, independent reader of what is made of them. */

const encoder = new TextEncoder();

export function bytesOf(text: string): Uint8Array {
  return encoder.encode(text);
}

export function textOf(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** The smallest thing that is recognised as audio. */
export const wave = bytesOf("RIFF\u0024\u0000\u0000\u0000WAVEfmt ");

/** A file in memory that is read as a file on a disk is: in pieces of the reader's choice. */
export function stored(content: Uint8Array): StoredFile {
  return {
    length: content.length,
    head: content.slice(0, 4096),
    read: (from, length) => Promise.resolve(content.slice(from, from + length)),
  };
}

export function formFile(content: Uint8Array = wave, facts: Partial<FormFile> = {}): FormFile {
  return { name: "speech.wav", type: "audio/wav", content: stored(content), ...facts };
}

export function fieldsOf(entries: readonly (readonly [string, string])[]): readonly FormField[] {
  return entries.map(([name, value]) => ({ name, value }));
}

/** A request that the gateway accepts, with more fields and another file where a test is about those. */
export function ask(
  entries: readonly (readonly [string, string])[] = [],
  { file = formFile(), task = "transcribe" }: { readonly file?: FormFile; readonly task?: TranscriptionRequest["task"] } = {},
): TranscriptionRequest {
  const read = readTranscriptionRequest(fieldsOf([["model", "ours"], ...entries]), file, task);
  if (isFailure(read)) throw new Error(read.detail);
  return read;
}

export interface TargetFacts {
  readonly formats?: readonly TranscriptFormat[] | null;
  readonly streams?: boolean;
  readonly audioSecondsMax?: number | null;
  readonly model?: string;
  readonly address?: Partial<Address>;
  readonly quirks?: Partial<Quirks>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly forwarded?: Readonly<Record<string, string>>;
}

export function target({
  formats = null,
  streams = true,
  audioSecondsMax = null,
  model = "theirs",
  address = {},
  quirks = {},
  headers = {},
  forwarded = {},
}: TargetFacts = {}): Target {
  const plain = channel("upstream");
  const capabilities: Capabilities = {
    ...plain.capabilities,
    transcriptionFormats: formats === null ? [] : [{ prefix: "", formats }],
    transcriptionStream: streams,
    audioSecondsMax,
  };
  return {
    channel: { ...plain, capabilities, headers, address: { ...plain.address, ...address }, quirks: { ...plain.quirks, ...quirks } },
    model,
    ceiling: null,
    meterStream: false,
    forwarded,
  };
}

export function encoded(made: EncodedRequest | Failure): EncodedRequest {
  if (isFailure(made)) throw new Error(made.detail);
  return made;
}

export function head(type: string | null): UpstreamHead {
  return { status: 200, header: (name) => (name === "content-type" ? type : null) };
}

/** What is made of an answer that came whole. */
export function readWhole(
  { answer }: EncodedRequest,
  body: Uint8Array | string,
  type: string | null = "application/json",
): WholeAnswer | Failure {
  const bytes = typeof body === "string" ? bytesOf(body) : body;
  if (answer.kind === "steps") throw new Error("the answer takes several requests");
  return answer.kind === "whole" ? answer.read(bytes, head(type)) : answer.instead(bytes, head(type));
}

export function whole(read: WholeAnswer | Failure): WholeAnswer {
  if (isFailure(read)) throw new Error(`${read.kind}: ${read.detail}`);
  return read;
}

/** All bytes of a body that is sent in parts, and the length of the longest part. */
export async function sent(body: StreamedBody): Promise<{ readonly bytes: Uint8Array; readonly partMax: number }> {
  const parts: Uint8Array[] = [];
  for await (const part of body.parts()) parts.push(part.slice());
  return { bytes: new Uint8Array(Buffer.concat(parts)), partMax: Math.max(...parts.map(({ length }) => length)) };
}

/** The form as an upstream reads it, through a reader that is not ours. */
export async function formIn({ request }: EncodedRequest): Promise<FormData> {
  const { bytes } = await sent(request.body as StreamedBody);
  return parsedForm(bytes, request.headers["content-type"]!);
}

export function parsedForm(bytes: Uint8Array, type: string): Promise<FormData> {
  return new Response(Buffer.from(bytes), { headers: { "content-type": type } }).formData();
}

/** The data of every event of a body. A keep-alive comment, which a slow machine makes the gateway send, is none. */
export function eventsIn(body: Uint8Array): readonly string[] {
  return textOf(body)
    .split("\n\n")
    .slice(0, -1)
    .filter((frame) => !frame.startsWith(":"))
    .map((frame) => frame.slice("data: ".length));
}

export interface ReadCue {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Reads subtitles strictly: what deviates from the format in any way is an error. */
export function cuesIn(body: Uint8Array, format: "srt" | "vtt"): readonly ReadCue[] {
  let text = textOf(body);
  if (format === "vtt") {
    if (!text.startsWith("WEBVTT\n\n")) throw new Error("no header");
    text = text.slice("WEBVTT\n\n".length);
  }
  if (text === "") return [];
  if (!text.endsWith("\n\n")) throw new Error("no blank line at the end");
  return text
    .slice(0, -2)
    .split("\n\n")
    .map((block, index) => {
      const lines = block.split("\n");
      if (format === "srt" && lines.shift() !== String(index + 1)) throw new Error(`not cue ${index + 1}: ${block}`);
      const point = format === "srt" ? "," : "\\.";
      const time = `(\\d{2,}):([0-5]\\d):([0-5]\\d)${point}(\\d{3})`;
      const found = new RegExp(`^${time} --> ${time}$`).exec(lines[0] ?? "");
      if (found === null || lines.length !== 2) throw new Error(`not a cue: ${block}`);
      const [, ...digits] = found.map(Number) as [number, ...number[]];
      const ms = ([hours, minutes, seconds, rest]: readonly number[]): number => ((hours! * 60 + minutes!) * 60 + seconds!) * 1000 + rest!;
      return { start: ms(digits.slice(0, 4)), end: ms(digits.slice(4)), text: lines[1]! };
    });
}
