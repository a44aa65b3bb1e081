import { makeEncoder } from "../../../packages/embedded/src/codecs/encode.ts";
import type { AudioFormat } from "../../../src/media/audio.ts";
import { speechLike } from "../signal.ts";

/** The rate of every take. */
export const takeRate = 24_000;

/** One recording in one format. Two upstreams never have the same, so that a mixture of them shows. */
export type TakeNumber = 0 | 1;

/** Encodes both takes of a format, once in the life of a process. */
export function prepareTakes(format: AudioFormat): Promise<unknown> {
  let preparing = prepared.get(format);
  if (preparing === undefined) {
    preparing = Promise.all([encodeTake(format, 0), encodeTake(format, 1)]);
    prepared.set(format, preparing);
  }
  return preparing;
}

/** The whole file. Throws where nobody prepared it. */
export function takeOf(format: AudioFormat, number: TakeNumber): Uint8Array {
  const take = takes.get(`${format}${number}`);
  if (take === undefined) throw new Error(`nobody prepared the takes of ${format}`);
  return take;
}

/** What is to be heard in a take. */
export function samplesOf(number: TakeNumber): Float32Array {
  const known = samples[number];
  if (known !== undefined) return known;
  const spoken = speechLike(takeRate, takeSeconds);
  return (samples[number] = number === 0 ? spoken : spoken.toReversed());
}

const prepared = new Map<AudioFormat, Promise<unknown>>();
const takes = new Map<string, Uint8Array>();
const samples: Float32Array[] = [];
/** Some 64 KiB as MP3. */
const takeSeconds = 5.5;
/** The others are slower to encode, and not needed so long. */
const shortSeconds = 2.5;

async function encodeTake(format: AudioFormat, number: TakeNumber): Promise<void> {
  const encoder = await makeEncoder(format, { sampleRate: takeRate });
  const long = format === "mp3" || format === "pcm" || format === "wav";
  const bytes = Buffer.concat([encoder.push(samplesOf(number).subarray(0, long ? undefined : shortSeconds * takeRate)), encoder.end()]);
  encoder.destroy();
  takes.set(`${format}${number}`, new Uint8Array(bytes));
}
