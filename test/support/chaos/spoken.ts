import { audioFormats, audioTypes, type AudioFormat } from "../../../src/media/audio.ts";
import type { Exchange } from "./exchange.ts";
import { textOf } from "./ask.ts";
import type { Performance } from "./performance.ts";
import { takeOf, type TakeNumber } from "./take.ts";

/**
 * Speech in steps of one kilobyte, each sent on its own: as bytes, or as events where they are asked for. Samples say in
 * each step which attempt they are of and which step it is; an MP3 says it in its tag, and of the others each upstream has
 * a recording of its own.
 */
export function spoken(exchange: Exchange): Performance {
  const { manner, ask, attempt } = exchange;
  const format = formatOf(exchange);
  const audio = audioOf(format, attempt.id, ask.tokens);
  const count = Math.ceil(audio.length / stepBytes);
  const events = manner.events ?? ask.fields["stream_format"] === "sse";
  return {
    streams: true,
    contentType: events ? "text/event-stream; charset=utf-8" : audioTypes[format],
    count,
    step(index) {
      // Where there is no end of it, it begins anew.
      const at = (index % count) * stepBytes;
      const piece = audio.subarray(at, at + stepBytes);
      return { audio: piece, text: "", payload: events ? JSON.stringify(deltaOf(piece)) : null };
    },
    closing: () => (events ? [JSON.stringify({ type: "speech.audio.done", usage: usageOf(count) })] : []),
    whole: () => audio,
  };
}

export const stepBytes = 1024;

/** What an exchange is asked for, whatever it then answers with. */
export function formatOf({ manner, ask }: Exchange): AudioFormat {
  const asked = textOf(ask.fields["response_format"]) ?? "mp3";
  return manner.audioFormat ?? audioFormats.find((format) => format === asked) ?? "mp3";
}

/** Every byte of a healthy answer. The same for every call with the same arguments. */
export function audioOf(format: AudioFormat, attemptId: string, steps: number | null): Uint8Array {
  const key = `${format} ${attemptId} ${steps}`;
  if (latest.key !== key) latest = { key, audio: makeAudio(format, attemptId, steps) };
  return latest.audio;
}

/** Asked for at each step. */
let latest: { readonly key: string; readonly audio: Uint8Array } = { key: "", audio: new Uint8Array(0) };

function makeAudio(format: AudioFormat, attemptId: string, steps: number | null): Uint8Array {
  const number = takeNumberOf(attemptId);
  switch (format) {
    case "pcm":
      return tagged(attemptId, number, steps ?? defaultSteps);
    case "wav":
      return wav(tagged(attemptId, number, steps ?? defaultSteps));
    case "mp3":
      return Buffer.concat([tagFor(attemptId), takeOf("mp3", number)]);
    case "opus":
    case "aac":
    case "flac":
      return takeOf(format, number);
  }
}

export function takeNumberOf(attemptId: string): TakeNumber {
  return attemptId.startsWith("a") ? 0 : 1;
}

const defaultSteps = 64;

/** Samples of the take, with two marks at the beginning of each step: of the attempt, and the number of the step. */
function tagged(attemptId: string, number: TakeNumber, steps: number): Uint8Array {
  const source = takeOf("pcm", number);
  const bytes = new Uint8Array(steps * stepBytes);
  for (let at = 0; at < bytes.length; at += source.length) bytes.set(source.subarray(0, bytes.length - at), at);
  const view = new DataView(bytes.buffer);
  for (let step = 0; step < steps; step += 1) {
    view.setInt16(step * stepBytes, markOf(attemptId), true);
    view.setInt16(step * stepBytes + 2, step & 0x7fff, true);
  }
  return bytes;
}

/** Small, so that it is neither loud nor the beginning of any other format. */
function markOf(attemptId: string): number {
  let mark = 7;
  for (const character of attemptId) mark = (mark * 31 + character.charCodeAt(0)) & 0xffff;
  return mark & 0x3f3f;
}

/** With the length that is true, so that a part of it can be told from the whole. */
function wav(samples: Uint8Array): Uint8Array {
  const header = Buffer.from(takeOf("wav", 0).subarray(0, 44));
  header.writeUInt32LE(36 + samples.length, 4);
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}

function tagFor(attemptId: string): Uint8Array {
  const value = Buffer.from(`\0attempt\0${attemptId}\0`, "latin1");
  const frame = Buffer.concat([Buffer.from("TXXX"), Buffer.from([0, 0, 0, value.length, 0, 0]), value]);
  return Buffer.concat([Buffer.from("ID3\x04\0\0", "latin1"), Buffer.from([0, 0, 0, frame.length]), frame]);
}

function deltaOf(audio: Uint8Array): object {
  return { type: "speech.audio.delta", audio: Buffer.from(audio).toString("base64") };
}

function usageOf(steps: number): object {
  return { input_tokens: 7, output_tokens: steps, total_tokens: 7 + steps };
}
