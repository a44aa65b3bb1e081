import { decodeSamples } from "../codecs/decode-file.ts";
import { UndecodableAudio } from "../codecs/codec.ts";

/** Decodes one file into the given memory, says how that ended, and is then ended itself (decoding.ts). */
export interface Decoding {
  readonly file: ArrayBuffer;
  /** Empty, and able to grow to what the longest file needs. How far it has grown shows how far the decoding is. */
  readonly memory: SharedArrayBuffer;
  readonly sampleRate: number;
  readonly secondsMax: number | undefined;
}

export type DecodingOutcome =
  | { readonly type: "done"; readonly samples: number }
  /** By the file's fault, and the message is fit to be shown. */
  | { readonly type: "undecodable"; readonly message: string }
  | { readonly type: "failed"; readonly message: string };

declare const self: Worker;

/** A call to the system for each few samples would be slow. */
const growthBytes = 1024 * 1024;
/** The collector waits for as much waste as there is memory in use, ours among it, which is a lot for a long file. */
const collectEverySamples = 1_000_000;

self.addEventListener("message", ({ data }: MessageEvent<Decoding>) => {
  decode(data).then(
    (samples) => tell({ type: "done", samples }),
    (error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      tell({ type: error instanceof UndecodableAudio ? "undecodable" : "failed", message });
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
    if (neededBytes > memory.maxByteLength) throw new UndecodableAudio("The audio is too long: it may last two hours.");
    if (neededBytes > memory.byteLength) memory.grow(Math.min(memory.maxByteLength, neededBytes + growthBytes));
    all.set(samples, length);
    length += samples.length;
    if (length < collectAt) return;
    collectAt = length + collectEverySamples;
    Bun.gc(true);
  });
  return length;
}

function tell(outcome: DecodingOutcome): void {
  self.postMessage(outcome, []);
}
