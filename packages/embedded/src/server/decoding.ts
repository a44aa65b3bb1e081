import { fileSecondsMax } from "../codecs/decode-file.ts";
import { UndecodableAudio } from "../codecs/codec.ts";
import { startWorkingTime } from "../codecs/working-time.ts";
import type { Decoding, DecodingOutcome } from "./decoding-worker.ts";

export interface DecodingOptions {
  readonly sampleRate: number;
  /** Stops decoding at once; the promise rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** The longest audio that is accepted. */
  readonly secondsMax?: number;
  /** The time limit, in addition to a tenth of the audio's duration. Time without a CPU does not count. */
  readonly timeoutMs?: number;
  /** How much memory this process may use in addition to the samples. */
  readonly growthBytesMax?: number;
}

const timeoutMsDefault = 60_000;
const timeoutShare = 0.1;
/** Decoders need some ten megabytes. A file that needs a gibibyte was made to break one. */
const growthBytesMaxDefault = 1024 ** 3;
const pollMs = 100;
const sampleBytes = Float32Array.BYTES_PER_ELEMENT;

/**
 * Decodes an upload in a worker that can be terminated: a malicious file may make a decoder loop forever or use all memory. Transfers
 * the file's buffer. Throws `UndecodableAudio` like `decodeFile`.
 */
export async function decodeInWorker(file: ArrayBuffer, options: DecodingOptions): Promise<Float32Array> {
  const { sampleRate, signal, secondsMax, timeoutMs = timeoutMsDefault, growthBytesMax = growthBytesMaxDefault } = options;
  signal.throwIfAborted();
  // It grows in place, so that nothing is copied and a short file uses little memory.
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
    return timeoutMs + decodedMs * timeoutShare - workedMs();
  };
  const checkTime = (): void => {
    if (leftMs() > 0) timer = setTimeout(checkTime, Math.max(pollMs, leftMs()));
    else reject(new UndecodableAudio("Decoding it takes too long."));
  };
  let timer = setTimeout(checkTime, timeoutMs);
  // The decoders bound all sizes that a file declares. This catches what they overlook.
  const initialBytes = process.memoryUsage.rss();
  const memoryWatch = setInterval(() => {
    if (process.memoryUsage.rss() - initialBytes - memory.byteLength <= growthBytesMax) return;
    reject(new UndecodableAudio("Decoding it needs too much memory."));
  }, pollMs);

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
