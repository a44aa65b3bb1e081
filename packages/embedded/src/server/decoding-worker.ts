import { decodeSamples } from "../codecs/decode-file.ts";
import { UndecodableAudio } from "../codecs/codec.ts";

/** A request to the worker: it decodes one file into shared memory, reports the outcome, and is then terminated (decoding.ts). */
export interface Decoding {
  readonly file: ArrayBuffer;
  /** Initially empty; it grows with the decoded samples, so that its size shows the progress. */
  readonly memory: SharedArrayBuffer;
  readonly sampleRate: number;
  readonly secondsMax: number | undefined;
}

export type DecodingOutcome =
  | { readonly type: "done"; readonly samples: number }
  /** The file is to blame, and the message may be shown to the client. */
  | { readonly type: "undecodable"; readonly message: string }
  | { readonly type: "failed"; readonly message: string };

declare const self: Worker;

/** Growing takes a system call, so that it is done in large steps. */
const growthBytes = 1024 * 1024;
/** The garbage collector waits until there is as much garbage as memory in use, which is a lot for a long file. */
const collectEverySamples = 1_000_000;

self.addEventListener("message", ({ data }: MessageEvent<Decoding>) => {
  decode(data).then(
    (samples) => post({ type: "done", samples }),
    (error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      post({ type: error instanceof UndecodableAudio ? "undecodable" : "failed", message });
    },
  );
});

async function decode({ file, memory, sampleRate, secondsMax }: Decoding): Promise<number> {
  const all = new Float32Array(memory);
  let length = 0;
  let collectAt = collectEverySamples;
  const options = secondsMax === undefined ? { sampleRate } : { sampleRate, secondsMax };
  await decodeSamples(new Uint8Array(file), options, ({ samples }) => {
    const neededBytes = (length + samples.length) * Float32Array.BYTES_PER_ELEMENT;
    if (neededBytes > memory.maxByteLength) throw new UndecodableAudio("The audio is too long: the limit is two hours.");
    if (neededBytes > memory.byteLength) memory.grow(Math.min(memory.maxByteLength, neededBytes + growthBytes));
    all.set(samples, length);
    length += samples.length;
    if (length < collectAt) return;
    collectAt = length + collectEverySamples;
    Bun.gc(true);
  });
  return length;
}

function post(outcome: DecodingOutcome): void {
  self.postMessage(outcome, []);
}
