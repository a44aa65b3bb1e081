import { makeDecoder } from "../packages/embedded/src/codecs/decode.ts";
import { makeEncoder } from "../packages/embedded/src/codecs/encode.ts";
import { type AudioFormat, audioFormats } from "../src/media/audio.ts";
import { recordingRate, voice } from "./recording.ts";
import { median } from "./statistics.ts";

/** How fast the codecs are, in a process where nothing else happens. They are fed as the gateway's worker feeds them. */
export interface CodecSpeed {
  readonly format: AudioFormat;
  /** Seconds of audio per second of CPU time. */
  readonly encode: number;
  readonly decode: number;
}

const sliceBytes = 4096;
const sliceSamples = sliceBytes / 2;

async function encoded(format: AudioFormat, samples: Float32Array): Promise<Buffer> {
  const encoder = await makeEncoder(format, { sampleRate: recordingRate });
  const made: Uint8Array[] = [];
  for (let at = 0; at < samples.length; at += sliceSamples) made.push(encoder.push(samples.subarray(at, at + sliceSamples)).slice());
  made.push(encoder.end().slice());
  encoder.destroy();
  return Buffer.concat(made);
}

/** The seconds that came out of it. */
async function decoded(format: AudioFormat, bytes: Uint8Array): Promise<number> {
  const decoder = await makeDecoder(format);
  let seconds = 0;
  const count = ({ samples, sampleRate }: ReturnType<typeof decoder.end>) => {
    if (samples.length > 0) seconds += samples.length / sampleRate;
  };
  for (let at = 0; at < bytes.length; at += sliceBytes) count(decoder.push(bytes.subarray(at, at + sliceBytes)));
  count(decoder.end());
  decoder.destroy();
  return seconds;
}

async function speedOf(format: AudioFormat, samples: Float32Array, rounds: number): Promise<CodecSpeed> {
  const seconds = samples.length / recordingRate;
  const encodings: number[] = [];
  const decodings: number[] = [];
  // The first round compiles.
  for (let round = 0; round <= rounds; round += 1) {
    const beforeEncoding = cpuSeconds();
    const bytes = await encoded(format, samples);
    const between = cpuSeconds();
    const heard = await decoded(format, bytes);
    const after = cpuSeconds();
    if (Math.abs(heard - seconds) > lostSecondsMax) throw new Error(`of ${seconds} s of ${format} came back ${heard} s`);
    if (round === 0) continue;
    encodings.push(seconds / (between - beforeEncoding));
    decodings.push(seconds / (after - between));
  }
  return { format, encode: median(encodings), decode: median(decodings) };
}

/** What an encoder may add at the edges. */
const lostSecondsMax = 0.25;

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
}

if (import.meta.main) {
  process.stdin.on("end", () => process.exit(0)).resume();
  const samples = voice(Number(process.argv[2] ?? 30));
  const speeds: CodecSpeed[] = [];
  for (const format of audioFormats) speeds.push(await speedOf(format, samples, Number(process.argv[3] ?? 3)));
  console.log(JSON.stringify({ event: "result", speeds }));
  process.exit(0);
}
