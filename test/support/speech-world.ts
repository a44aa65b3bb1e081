import type { UpstreamHead, Emissions, StreamReader, Target, ReaderTools } from "../../src/dialects/dialect.ts";
import type { Channel, Voices } from "../../src/channels/channel.ts";
import type { AudioFormat, Transcoder } from "../../src/media/audio.ts";
import type { Emission } from "../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { makeEncoder } from "../../packages/embedded/src/codecs/encode.ts";

/** A tone of so many milliseconds, in a format and from a real encoder. */
export async function tone(format: AudioFormat, durationMs = 120): Promise<Uint8Array> {
  const encoder = await makeEncoder(format, { sampleRate: 24_000 });
  const samples = Float32Array.from({ length: 24 * durationMs }, (_, at) => Math.sin(at / 9) / 3);
  const parts = [encoder.push(samples), encoder.end()];
  encoder.destroy();
  return new Uint8Array(Buffer.concat(parts));
}

/** A WAV that says how long it is, unlike those that are streamed. */
export function sizedWav(pcm: Uint8Array): Uint8Array {
  const head = Buffer.alloc(44);
  head.write("RIFF\0\0\0\0WAVEfmt ", "latin1");
  head.writeUInt32LE(36 + pcm.length, 4);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(24_000, 24);
  head.writeUInt32LE(48_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36, "latin1");
  head.writeUInt32LE(pcm.length, 40);
  return new Uint8Array(Buffer.concat([head, pcm]));
}

/** A transcoder that shows what went through it: every byte complemented, between a head and a tail. */
export class FakeTranscoder implements Transcoder {
  destroyed = 0;
  ended = false;
  received = 0;
  private begun = false;

  constructor(private readonly options: { readonly needs?: number; readonly breaksAt?: number } = {}) {}

  async push(bytes: Uint8Array): Promise<Uint8Array> {
    await Promise.resolve();
    this.received += bytes.length;
    if (this.received > (this.options.breaksAt ?? Infinity)) throw new Error("cannot read this");
    if (this.received < (this.options.needs ?? 0)) return new Uint8Array(0);
    const head = this.begun ? "" : "<";
    this.begun = true;
    return new Uint8Array(Buffer.concat([Buffer.from(head), bytes.map((byte) => byte ^ 0xff)]));
  }

  async end(): Promise<Uint8Array> {
    await Promise.resolve();
    this.ended = true;
    return this.begun ? new Uint8Array(Buffer.from(">")) : new Uint8Array(0);
  }

  destroy(): void {
    this.destroyed++;
  }
}

export const noTools: ReaderTools = { transcoder: () => Promise.resolve(null) };

export function toolsOf(transcoder: Transcoder, asked: string[] = []): ReaderTools {
  return {
    transcoder: (from, to) => {
      asked.push(`${from} to ${to}`);
      return Promise.resolve(transcoder);
    },
  };
}

export function headOf(contentType: string | null): UpstreamHead {
  return { status: 200, header: (name) => (name === "content-type" ? contentType : null) };
}

export interface Played {
  readonly emissions: readonly Emission[];
  readonly failure: Failure | null;
  /** What a client would get, all of it. */
  readonly sent: Buffer;
}

/** Reads a body in these chunks to its end or to the first failure, as the gateway does. */
export async function play(reader: StreamReader | Failure, chunks: readonly Uint8Array[]): Promise<Played> {
  const emissions: Emission[] = [];
  let failure: Failure | null = null;
  if (isFailure(reader)) return { emissions, failure: reader, sent: Buffer.alloc(0) };
  const take = (read: Emissions): void => {
    if (isFailure(read)) failure = read;
    else emissions.push(...read);
  };
  for (const chunk of [...chunks, null]) {
    // A reader that needs no transcoder answers at once, and a sweep over every byte would feel the wait.
    const read = chunk === null ? reader.close() : reader.push(chunk);
    take(read instanceof Promise ? await read : read);
    while (failure === null && reader.hasMore === true) take(await reader.push(new Uint8Array(0)));
    failure ??= reader.pending;
    if (failure !== null || emissions.at(-1)?.kind === "end") break;
  }
  const frames = emissions.flatMap((emission) => ("frame" in emission && emission.frame !== null ? [emission.frame] : []));
  return { emissions, failure, sent: Buffer.concat(frames) };
}

export function spoke({ emissions }: Played): boolean {
  return emissions.some((emission) => emission.kind === "delta" && emission.output === "audio");
}

/** What a client makes of events: the audio of all of them, and how often and with what the stream said that it is done. */
export function heard(sent: Buffer): { readonly audio: Buffer; readonly done: readonly unknown[] } {
  const events = sent
    .toString()
    .split("\n\n")
    .flatMap((frame) =>
      frame === "" ? [] : [JSON.parse(frame.slice("data: ".length)) as { type: string; audio?: string; usage?: unknown }],
    );
  const audio = events.flatMap((event) => (event.type === "speech.audio.delta" ? [Buffer.from(event.audio!, "base64")] : []));
  return { audio: Buffer.concat(audio), done: events.flatMap((event) => (event.type === "speech.audio.done" ? [event.usage] : [])) };
}

export interface TargetOptions {
  readonly model?: string;
  readonly voices?: Voices;
  readonly speechFormats?: readonly AudioFormat[] | null;
  readonly speechPath?: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly forwarded?: Readonly<Record<string, string>>;
}

export const anyVoice: Voices = { names: new Map(), unknown: "pass", fallback: null };

export function targetOf(options: TargetOptions = {}): Target {
  // What speech does not look at is left out.
  const capabilities = { operations: ["speech"], speechFormats: options.speechFormats ?? null };
  const address = {
    baseUrl: "https://speech.test/v1",
    host: "speech.test:443",
    speechPath: options.speechPath ?? "/audio/speech",
    query: options.query ?? "",
  };
  const channel = { address, capabilities, voices: options.voices ?? anyVoice, modelVoices: new Map(), headers: options.headers ?? {} };
  return {
    channel: channel as unknown as Channel,
    model: options.model ?? "tts-1",
    ceiling: null,
    meterStream: false,
    forwarded: options.forwarded ?? {},
  };
}
