import { makeResampler, type Resampler } from "../codecs/resample.ts";
import { UndecodableAudio } from "../codecs/codec.ts";
import { makeSplitter, type Part } from "./splitter.ts";
import { decodeStream, isMissingModule } from "./decode-stream.ts";
import { headFrame, type Head } from "./frames.ts";
import { oneStep, startWatchdog } from "./progress.ts";
import { standardInput, writeOut } from "./standard-streams.ts";
import { wavFile } from "./wav-file.ts";
import { lowerPriority } from "../lower-priority.ts";

/**
 * Splits a recording: `--bytes N --seconds S [--stall-seconds S]` with the file on stdin and frames on stdout (frames.ts). It is a
 * separate process, because decoding needs much CPU and a malicious file may break a decoder.
 */
const sampleRate = 16_000;
/** A small file may contain years of silence. */
const recordingSecondsMax = 24 * 3600;
/** How much is resampled at once. From a low sample rate, the output is many times longer. */
const sliceSamples = 16_384;
/** How long decoding may produce nothing. */
const stallSecondsDefault = 60;

async function main(): Promise<void> {
  const bytes = option("--bytes");
  const secondsMax = option("--seconds");
  lowerPriority();
  startWatchdog(option("--stall-seconds", stallSecondsDefault) * 1000, bytes);
  const splitter = makeSplitter({ sampleRate, secondsMax, onPart: write });
  let resampler: Resampler | null = null;
  let total = 0;
  await decodeStream(standardInput(bytes), bytes, (decoded) => {
    if (decoded.samples.length === 0) return;
    total += decoded.samples.length;
    if (total > recordingSecondsMax * decoded.sampleRate) throw new UndecodableAudio("The recording is too long: the limit is 24 hours.");
    resampler ??= makeResampler(decoded.sampleRate, sampleRate);
    for (let at = 0; at < decoded.samples.length; at += sliceSamples) {
      splitter.push(resampler.push(decoded.samples.subarray(at, at + sliceSamples)));
      oneStep();
    }
  });
  if (total === 0) throw new UndecodableAudio("There is no audio in the file.");
  splitter.push((resampler as Resampler | null)?.end() ?? new Float32Array(0));
  splitter.end();
  writeHeader({ type: "end" });
}

function option(name: string, fallback?: number): number {
  if (fallback !== undefined && !process.argv.includes(name)) return fallback;
  const value = Number(process.argv[process.argv.indexOf(name) + 1]);
  if (!process.argv.includes(name) || !(value > 0)) throw new Error(`${name} must be a number above 0`);
  return value;
}

function write({ start, samples, overlap, goesOn }: Part): void {
  const file = wavFile(samples, sampleRate);
  const end = (start + samples.length) / sampleRate;
  writeHeader({ type: "part", start: start / sampleRate, end, overlap: overlap / sampleRate, goesOn, bytes: file.length });
  writeOut(file);
}

function writeHeader(head: Head): void {
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
  writeHeader(failureOf(error));
}
