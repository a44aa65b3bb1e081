import { fileDecoder, fileKind, openingBytes, type FileKind } from "./file-kind.ts";
import { id3TagBytes } from "../../../../src/media/containers/id3.ts";
import { joinSamples } from "./bytes.ts";
import { makeResampler, type Resampler } from "./resample.ts";
import { UndecodableAudio, type DecodedAudio } from "./codec.ts";

export { UndecodableAudio } from "./codec.ts";

/** Two hours. */
export const fileSecondsMax = 2 * 3600;
/** What is not resampled may be at any rate, but there are no more samples of it than at this one. */
const ownRateMax = 48_000;

/** A few bytes may stand for minutes of silence, and what they become must fit into memory at once. */
const sliceBytes = 4096;
/** What is resampled at once: from a low rate, it becomes many times more. */
const sliceSamples = 16_384;

export interface DecodeFileOptions {
  /** Gives the samples at this rate, made on the way: the file is then never held at its own, which may be much higher. */
  readonly sampleRate?: number;
  /** How long the audio may last. */
  readonly secondsMax?: number;
}

/** Decodes an upload, known by what it holds and not by its name: mp3, mp4 and m4a, webm, ogg, flac, wav or bare AAC. */
export async function decodeFile(source: Uint8Array, options: DecodeFileOptions = {}): Promise<DecodedAudio> {
  const pieces: Float32Array[] = [];
  let rate = 0;
  await decodeSamples(source, options, ({ samples, sampleRate }) => {
    // A decoder's samples may be a view of a larger buffer.
    pieces.push(samples.slice());
    rate = sampleRate;
  });
  return { samples: joinSamples(pieces), sampleRate: rate };
}

/**
 * The same, giving the samples as they are made; they are good until `give` returns. A file that is too long is refused
 * before more of it is given. It holds its thread, and a hostile file may hold it for ever: see server/decoding.ts.
 */
export async function decodeSamples(source: Uint8Array, options: DecodeFileOptions, give: (decoded: DecodedAudio) => void): Promise<void> {
  const kind = kindOf(source);
  if (kind === null) throw new UndecodableAudio("The file is not in an audio format that can be read.");
  const passage = makePassage(options, give);
  if (kind === "container") {
    const { demux } = await import("./containers/demux.ts");
    await guarded(() => demux(source, passage.add));
  } else {
    const decoder = await fileDecoder(kind);
    try {
      await guarded(() => {
        for (let at = 0; at < source.length; at += sliceBytes) passage.add(decoder.push(source.subarray(at, at + sliceBytes)));
        passage.add(decoder.end());
      });
    } finally {
      decoder.destroy();
    }
  }
  passage.end();
}

function kindOf(source: Uint8Array): FileKind | null {
  const tagBytes = id3TagBytes(source, 0);
  const from = typeof tagBytes === "number" ? tagBytes : 0;
  return fileKind(source.subarray(from, from + openingBytes), source.length < openingBytes);
}

interface Passage {
  readonly add: (decoded: DecodedAudio) => void;
  end(): void;
}

/** What is decoded comes in here, and goes on at the rate that is wanted, within the bounds. */
function makePassage(
  { sampleRate: wantedRate, secondsMax = fileSecondsMax }: DecodeFileOptions,
  give: (decoded: DecodedAudio) => void,
): Passage {
  let rate = 0;
  let total = 0;
  let resampler: Resampler | null = null;
  return {
    add({ samples, sampleRate }) {
      if (samples.length === 0) return;
      if (rate === 0) {
        rate = sampleRate;
        resampler = wantedRate === undefined ? null : makeResampler(sampleRate, wantedRate);
      }
      total += samples.length;
      if (total > secondsMax * (resampler === null ? Math.min(rate, ownRateMax) : rate)) {
        throw new UndecodableAudio(
          `The audio is too long: it may last ${secondsMax === fileSecondsMax ? "two hours" : `${secondsMax} seconds`}.`,
        );
      }
      if (resampler === null || wantedRate === undefined) return give({ samples, sampleRate: rate });
      for (let at = 0; at < samples.length; at += sliceSamples) {
        give({ samples: resampler.push(samples.subarray(at, at + sliceSamples)), sampleRate: wantedRate });
      }
    },
    end() {
      if (total === 0) throw new UndecodableAudio("There is no audio in the file.");
      if (resampler !== null && wantedRate !== undefined) give({ samples: resampler.end(), sampleRate: wantedRate });
    },
  };
}

/** Whatever a decoder stumbles over in a hostile file, it is the file that could not be read. */
async function guarded(run: () => Promise<void> | void): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (error instanceof UndecodableAudio) throw error;
    throw new UndecodableAudio("The audio is damaged and could not be read.", { cause: error });
  }
}
