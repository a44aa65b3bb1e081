import { makeResampler, type Resampler } from "../codecs/resample.ts";
import { UndecodableAudio } from "../codecs/codec.ts";
import { makeCutter, type Part } from "./cutter.ts";
import { decodeStream, isMissingModule } from "./decode-stream.ts";
import { headFrame, type Head } from "./frames.ts";
import { oneStep } from "./progress.ts";
import { standardInput, writeOut } from "./standard-streams.ts";
import { watch } from "./watch.ts";
import { wavFile } from "./wav-file.ts";
import { lowerPriority } from "../lower-priority.ts";

/**
 * Cuts a recording into parts: `--bytes N --seconds S [--stall-seconds S]` with the file on its standard input, and frames on
 * its standard output (frames.ts). A process of its own, for decoding is heavy and a file may be made to break a decoder.
 */
const sampleRate = 16_000;
/** A small file may hold years of silence. */
const recordingSecondsMax = 24 * 3600;
/** What is resampled at once: from a low rate, it becomes many times more. */
const sliceSamples = 16_384;
/** So long the decoding may give nothing. */
const stallSecondsDefault = 60;

async function main(): Promise<void> {
  const bytes = option("--bytes");
  const secondsMax = option("--seconds");
  lowerPriority();
  watch(option("--stall-seconds", stallSecondsDefault) * 1000, bytes);
  const cutter = makeCutter({ sampleRate, secondsMax, give: write });
  let resampler: Resampler | null = null;
  let total = 0;
  await decodeStream(standardInput(bytes), bytes, (decoded) => {
    if (decoded.samples.length === 0) return;
    total += decoded.samples.length;
    if (total > recordingSecondsMax * decoded.sampleRate) throw new UndecodableAudio("The recording is too long: it may last 24 hours.");
    resampler ??= makeResampler(decoded.sampleRate, sampleRate);
    for (let at = 0; at < decoded.samples.length; at += sliceSamples) {
      cutter.push(resampler.push(decoded.samples.subarray(at, at + sliceSamples)));
      oneStep();
    }
  });
  if (total === 0) throw new UndecodableAudio("There is no audio in the file.");
  cutter.push((resampler as Resampler | null)?.end() ?? new Float32Array(0));
  cutter.end();
  tell({ type: "end" });
}

function option(name: string, usual?: number): number {
  if (usual !== undefined && !process.argv.includes(name)) return usual;
  const value = Number(process.argv[process.argv.indexOf(name) + 1]);
  if (!process.argv.includes(name) || !(value > 0)) throw new Error(`${name} must be a number above 0`);
  return value;
}

function write({ start, samples, overlap, goesOn }: Part): void {
  const file = wavFile(samples, sampleRate);
  const end = (start + samples.length) / sampleRate;
  tell({ type: "part", start: start / sampleRate, end, overlap: overlap / sampleRate, goesOn, bytes: file.length });
  writeOut(file);
}

function tell(head: Head): void {
  writeOut(headFrame(head));
}

function failureOf(error: unknown): Head {
  const message = error instanceof Error ? error.message : String(error);
  if (isMissingModule(error)) return { type: "failed", reason: "absent", message };
  return { type: "failed", reason: error instanceof UndecodableAudio ? "undecodable" : "broken", message };
}

try {
  await main();
} catch (error) {
  tell(failureOf(error));
}
