import { getAudioDecoder } from "audio-file-decoder";
import { makeAdtsReader } from "./adts.ts";
import { makeId3Skipper } from "../mpeg/id3.ts";
import { joinBytes, joinSamples } from "../bytes.ts";
import { silenced, silencedWithoutHandlers } from "../silenced.ts";
import { makeResampler, type Resampler } from "../resample.ts";
import { UndecodableAudio, type DecodedAudio, type StreamDecoder } from "../codec.ts";

/** The compiled decoder inside of the package, which decodes files that lie in its own memory. */
interface Avcodec {
  readonly HEAPU32: Uint32Array;
  readonly HEAPF32: Float32Array;
  readonly FS: { writeFile(path: string, bytes: Uint8Array): void; unlink(path: string): void };
  getProperties(path: string): { readonly status: Status; readonly sampleRate: number };
  decodeAudio(
    path: string,
    start: number,
    duration: number,
    options: { readonly multiChannel: boolean },
  ): { readonly status: Status; readonly samples: FloatVector };
}

interface Status {
  readonly status: number;
}

interface FloatVector {
  /** The handle of the compiled object, under the names that the build gave it. */
  readonly ha?: { readonly ma?: number };
  size(): number;
  get(index: number): number;
  delete(): void;
}

/**
 * The decoder knows whole files only, so the frames are given to it in batches. A frame is heard through the one before it,
 * so each batch begins with some frames of the last one, whose samples are thrown away. Batches are cut by frames and never
 * by how the bytes came, so the samples do not depend on that.
 */
const firstBatch = 8;
const nextBatch = 24;
const overlap = 6;
const path = "audio.aac";

let loading: Promise<Avcodec> | null = null;

export async function makeAacDecoder(): Promise<StreamDecoder> {
  loading ??= load().catch((error: unknown) => {
    loading = null;
    throw error;
  });
  const library = await loading;
  const reader = makeAdtsReader();
  const skipTag = makeId3Skipper();
  let waiting: Uint8Array[] = [];
  let before: Uint8Array[] = [];
  let sampleRate = 0;
  let failures = 0;
  let other: { readonly sampleRate: number; readonly resampler: Resampler } | null = null;

  const decodeBatch = (frames: readonly Uint8Array[]): Float32Array[] => {
    const batch = [...before, ...frames];
    const decoded = guarded(library, batch);
    before = batch.slice(-overlap);
    if (decoded === null) {
      if (++failures > 50) throw new UndecodableAudio("The AAC audio is damaged.");
      return [];
    }
    const samples = ofLast(decoded.samples, frames.length, batch.length);
    if (sampleRate === 0) sampleRate = decoded.sampleRate;
    // The rate doubles when the decoder finds the part of the stream that extends its band; the first rate stays.
    if (decoded.sampleRate === sampleRate) {
      const rest = other?.resampler.end();
      other = null;
      return rest === undefined ? [samples] : [rest, samples];
    }
    if (other?.sampleRate !== decoded.sampleRate) {
      other = { sampleRate: decoded.sampleRate, resampler: makeResampler(decoded.sampleRate, sampleRate) };
    }
    return [other.resampler.push(samples)];
  };

  const read = (frames: readonly Uint8Array[], ended: boolean): DecodedAudio => {
    waiting.push(...frames);
    const given: Float32Array[] = [];
    for (;;) {
      const size = before.length === 0 ? firstBatch : nextBatch;
      if (waiting.length < size && !(ended && waiting.length > 0)) break;
      given.push(...decodeBatch(waiting.slice(0, size)));
      waiting = waiting.slice(size);
    }
    return { samples: joinSamples(given), sampleRate };
  };

  return {
    push: (bytes) => read(reader.push(skipTag(bytes)), false),
    end() {
      const { samples } = read(reader.end(), true);
      if (sampleRate === 0) throw new UndecodableAudio("There is no AAC audio in it.");
      return { samples: joinSamples([samples, other?.resampler.end() ?? new Float32Array(0)]), sampleRate };
    },
    destroy() {
      waiting = [];
      before = [];
    },
  };
}

/**
 * The samples of the batch's last frames. The decoder keeps the first frame of a file to itself; of a stream's very first,
 * which holds nothing but the encoder's delay, silence stands for that.
 */
function ofLast(samples: Float32Array, frames: number, batch: number): Float32Array {
  if (batch === 1) return samples;
  const wanted = Math.round((samples.length / (batch - 1)) * frames);
  if (wanted <= samples.length) return samples.subarray(samples.length - wanted);
  const padded = new Float32Array(wanted);
  padded.set(samples, wanted - samples.length);
  return padded;
}

/** A module that has fallen over stays down: the next decoder gets a new one. */
function guarded(library: Avcodec, frames: readonly Uint8Array[]): DecodedAudio | null {
  try {
    return decodeFrames(library, frames);
  } catch (error) {
    loading = null;
    throw new UndecodableAudio("The AAC audio is damaged.", { cause: error });
  }
}

function decodeFrames(library: Avcodec, frames: readonly Uint8Array[]): DecodedAudio | null {
  return silenced(() => {
    library.FS.writeFile(path, joinBytes(frames));
    try {
      const { status, sampleRate } = library.getProperties(path);
      if (status.status < 0) return null;
      const decoded = library.decodeAudio(path, 0, -1, { multiChannel: false });
      try {
        if (decoded.status.status < 0) return null;
        return { samples: copied(library, decoded.samples), sampleRate };
      } finally {
        decoded.samples.delete();
      }
    } finally {
      library.FS.unlink(path);
    }
  });
}

/** Out of the decoder's memory in one piece; one by one, which is slow, should the object not look as it did. */
function copied({ HEAPU32, HEAPF32 }: Avcodec, vector: FloatVector): Float32Array {
  const size = vector.size();
  const place = (vector.ha?.ma ?? 0) >> 2;
  const begin = HEAPU32[place]! >> 2;
  const end = HEAPU32[place + 1]! >> 2;
  if (place > 0 && size > 0 && end - begin === size && HEAPF32[begin] === vector.get(0) && HEAPF32[end - 1] === vector.get(size - 1)) {
    return HEAPF32.slice(begin, end);
  }
  return Float32Array.from({ length: size }, (_, index) => vector.get(index));
}

async function load(): Promise<Avcodec> {
  const wasm = Bun.file(new URL("../decode-audio.wasm", import.meta.resolve("audio-file-decoder")));
  // It fetches its own code, from an address that is neither a file's nor a path.
  const address = URL.createObjectURL(new Blob([await wasm.arrayBuffer()], { type: "application/wasm" }));
  try {
    // It is made with a file at once: a frame of silence.
    const decoder = await silencedWithoutHandlers(() => getAudioDecoder(address, silence().buffer));
    decoder.dispose();
    const { _module: library } = decoder as unknown as { readonly _module: Avcodec };
    return library;
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** A WAV file with eight samples of silence. */
function silence(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(60);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode("RIFF"));
  view.setUint32(4, 52, true);
  bytes.set(new TextEncoder().encode("WAVEfmt "), 8);
  [16, 0x00_01_00_01, 8000, 16_000, 0x00_10_00_02].forEach((word, index) => view.setUint32(16 + index * 4, word, true));
  bytes.set(new TextEncoder().encode("data"), 36);
  view.setUint32(40, 16, true);
  return bytes;
}
