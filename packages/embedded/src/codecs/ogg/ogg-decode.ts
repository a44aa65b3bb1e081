import { joinSamples } from "../bytes.ts";
import { makeOggReader, type ReadOggPage } from "./ogg-read.ts";
import { type PacketDecoder, UndecodableAudio, type DecodedAudio, type StreamDecoder } from "../codec.ts";

/** Reads the first stream of an Ogg file that is of the decoder's kind, and streams of that kind that are chained behind it. */
export function makeOggDecoder(decoder: PacketDecoder): StreamDecoder {
  const reader = makeOggReader();
  let stream: Stream | null = null;
  let begun = false;

  const readPage = (page: ReadOggPage, given: Float32Array[]): void => {
    if (page.begins && (stream === null || stream.ended) && decoder.isHead(page.packets[0] ?? new Uint8Array(0))) {
      stream = { serial: page.serial, headers: [], start: null, decoded: 0, skip: 0, ended: false };
    }
    if (stream === null || page.serial !== stream.serial || stream.ended) return;
    let count = 0;
    const pieces: Float32Array[] = [];
    for (const packet of page.packets) {
      if (stream.headers.length < decoder.headers) {
        stream.headers.push(packet);
        if (stream.headers.length < decoder.headers) continue;
        decoder.begin(stream.headers);
        stream.skip = decoder.preSkip;
        begun = true;
        continue;
      }
      const samples = decoder.decode(packet);
      count += samples.length;
      pieces.push(samples);
    }
    stream.ended = page.ends;
    given.push(trimmed(stream, joinSamples(pieces), page, count));
  };

  return {
    push(bytes) {
      const given: Float32Array[] = [];
      for (const page of reader.push(bytes)) readPage(page, given);
      return { samples: joinSamples(given), sampleRate: begun ? decoder.sampleRate : 0 };
    },
    end(): DecodedAudio {
      if (!begun) throw new UndecodableAudio("There is no such audio in the Ogg stream.");
      return { samples: new Float32Array(0), sampleRate: decoder.sampleRate };
    },
    destroy: () => decoder.destroy(),
  };
}

interface Stream {
  readonly serial: number;
  readonly headers: Uint8Array[];
  /** The position at which the audio began: recordings of live streams do not begin at zero. */
  start: number | null;
  decoded: number;
  /** Samples still to drop from the front. */
  skip: number;
  ended: boolean;
}

/** Without what the encoder put in front of and behind the audio. */
function trimmed(stream: Stream, samples: Float32Array, { granule, ends }: ReadOggPage, count: number): Float32Array {
  stream.decoded += count;
  if (stream.start === null && count > 0 && granule >= 0) stream.start = ends ? 0 : Math.max(0, granule - stream.decoded);
  const excess = ends && granule >= 0 ? (stream.start ?? 0) + stream.decoded - granule : 0;
  const end = samples.length - Math.max(0, Math.min(excess, samples.length));
  const front = Math.min(stream.skip, end);
  stream.skip -= front;
  return samples.subarray(front, end);
}
