import { fileSecondsMax } from "../codecs/decode-file.ts";
import { UndecodableAudio } from "../codecs/codec.ts";
import { startWorkingTime } from "../codecs/working-time.ts";
import type { Decoding, DecodingOutcome } from "./decoding-worker.ts";

export interface DecodingOptions {
  readonly sampleRate: number;
  /** Stops the decoding at once; it then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** How long the audio may last. */
  readonly secondsMax?: number;
  /** How long it may take, beside a tenth of what the audio lasts. Time without a processor does not count. */
  readonly patienceMs?: number;
  /** How much this process may grow meanwhile, beside what the samples take. */
  readonly growthBytesMax?: number;
}

const patienceMsDefault = 60_000;
const patienceShare = 0.1;
/** Decoders take some ten megabytes. A gibibyte is what a file takes that was made to break one. */
const growthBytesMaxDefault = 1024 ** 3;
const lookEveryMs = 100;
const sampleBytes = Float32Array.BYTES_PER_ELEMENT;

/**
 * Decodes an upload in a thread of its own, which this one can end: a file may be made so that a decoder never comes back
 * from it, or takes all the memory there is. Takes the file's memory over. Throws `UndecodableAudio` as `decodeFile` does.
 */
export async function decodeApart(file: ArrayBuffer, options: DecodingOptions): Promise<Float32Array> {
  const { sampleRate, signal, secondsMax, patienceMs = patienceMsDefault, growthBytesMax = growthBytesMaxDefault } = options;
  signal.throwIfAborted();
  // It grows where it lies, so that neither a copy nor room for what a short file does not need is ever held.
  const memory = new SharedArrayBuffer(0, { maxByteLength: fileSecondsMax * sampleRate * sampleBytes });
  const worker = new Worker(new URL("./decoding-worker.ts", import.meta.url).href);
  const { promise, resolve, reject } = Promise.withResolvers<DecodingOutcome>();
  worker.addEventListener("message", ({ data }: MessageEvent<DecodingOutcome>) => resolve(data));
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    reject(new Error(`the decoding failed: ${event.message}`));
  });
  worker.addEventListener("close", () => reject(new Error("the decoding ended without a result")));
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });

  const workedMs = startWorkingTime();
  const leftMs = (): number => {
    const decodedMs = (memory.byteLength / sampleBytes / sampleRate) * 1000;
    return patienceMs + decodedMs * patienceShare - workedMs();
  };
  const watch = (): void => {
    if (leftMs() > 0) timer = setTimeout(watch, Math.max(lookEveryMs, leftMs()));
    else reject(new UndecodableAudio("It takes too long, so it cannot be decoded."));
  };
  let timer = setTimeout(watch, patienceMs);
  // The first line are bounds on everything that a file counts; this is for what they do not think of.
  const beganBytes = process.memoryUsage.rss();
  const memoryWatch = setInterval(() => {
    if (process.memoryUsage.rss() - beganBytes - memory.byteLength <= growthBytesMax) return;
    reject(new UndecodableAudio("It takes too much memory, so it cannot be decoded."));
  }, lookEveryMs);

  try {
    worker.postMessage({ file, memory, sampleRate, secondsMax } satisfies Decoding, [file]);
    const outcome = await promise;
    if (outcome.type === "undecodable") throw new UndecodableAudio(outcome.message);
    if (outcome.type === "failed") throw new Error(`the decoding failed: ${outcome.message}`);
    return new Float32Array(memory, 0, outcome.samples);
  } finally {
    clearTimeout(timer);
    clearInterval(memoryWatch);
    signal.removeEventListener("abort", onAbort);
    worker.terminate();
  }
}
