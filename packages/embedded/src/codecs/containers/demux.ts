import { makeAacDecoder } from "../aac/aac-decode.ts";
import { adtsHeader, type AdtsConfig } from "../aac/adts.ts";
import { makeAlacDecoder } from "../mp4/alac-decode.ts";
import { makeFlacDecoder } from "../flac/flac-decode.ts";
import { joinBytes } from "../bytes.ts";
import { aacSampleRates } from "../../../../../src/media/containers/adts.ts";
import { hasTextAt } from "../../../../../src/media/containers/bytes.ts";
import { makeMp3Decoder } from "../mpeg/mp3-decode.ts";
import { makeOpusDecoder } from "../ogg/opus-decode.ts";
import { makeSampleReader } from "../wav/sample-formats.ts";
import { readAiff } from "./aiff-read.ts";
import { readCaf } from "./caf-read.ts";
import { readMatroska } from "./matroska-read.ts";
import { readMp4 } from "../mp4/mp4-read.ts";
import type { TrackCoding, DemuxedTrack } from "./demuxed-track.ts";
import { UndecodableAudio, type DecodedAudio, type StreamDecoder, type PacketDecoder } from "../codec.ts";
import { makeVorbisDecoder } from "../ogg/vorbis-decode.ts";

/** Two hours of the shortest packets there are. */
const packetsMax = 3_000_000;
/** As long as any file may be: more is left out by no edit. */
const leadSecondsMax = 2 * 3600;
const streamSliceBytes = 4096;

/**
 * Gives the sound of the first track with sound in a WebM, MP4, AIFF or CAF file. What a table in the file claims costs nothing:
 * the packets are read one by one, and all of them together are no longer than the file.
 */
export async function demux(source: Uint8Array, give: (decoded: DecodedAudio) => void): Promise<void> {
  const track = findAudioTrack(source);
  if (track === null) throw new UndecodableAudio("There is no audio in the file.");
  if (!(track.leadSeconds <= leadSecondsMax)) throw new UndecodableAudio("The audio is too long: it may last two hours.");
  const { codec } = track.coding;
  const decoder = await decoderOf(track.coding);
  // A packet is as long as the file says, and a few bytes of these may stand for minutes; the others want it whole.
  const sliceBytes = codec === "flac" || codec === "mp3" || codec === "samples" ? streamSliceBytes : Infinity;
  try {
    const trimmed = makeTrim(track, give);
    let packets = 0;
    for (const packet of track.packets) {
      if (trimmed.isOver()) return;
      if (++packets > packetsMax) throw new UndecodableAudio("The audio is too long: it may last two hours.");
      for (const slice of slices(packet, sliceBytes)) trimmed.give(decoder.push(slice));
    }
    trimmed.give(decoder.end());
  } finally {
    decoder.destroy();
  }
}

/** The first track with sound in a WebM, Matroska, MP4, QuickTime, AIFF or CAF file. Null where there is none. */
export function findAudioTrack(source: Uint8Array): DemuxedTrack | null {
  if (hasTextAt(source, 0, "\x1a\x45\xdf\xa3")) return readMatroska(source);
  if (hasTextAt(source, 0, "FORM")) return readAiff(source);
  return hasTextAt(source, 0, "caff") ? readCaf(source) : readMp4(source);
}

function* slices(bytes: Uint8Array, sliceBytes: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += sliceBytes) yield bytes.subarray(at, Math.min(bytes.length, at + sliceBytes));
}

/** What the file places before its own beginning and behind its end is not given: the encoder's delay, or what somebody cut off. */
function makeTrim(
  { leadSeconds, playSeconds, coding: { codec } }: DemuxedTrack,
  give: (decoded: DecodedAudio) => void,
): { give(decoded: DecodedAudio): void; isOver(): boolean } {
  let skip: number | null = null;
  let left = Infinity;
  return {
    isOver: () => left === 0,
    give({ samples, sampleRate }) {
      if (samples.length === 0) return;
      if (skip === null) {
        // Opus says the same in its own head, and it is left out by that.
        skip = codec === "opus" && leadSeconds < 1 ? 0 : Math.round(leadSeconds * sampleRate);
        left = Math.round(playSeconds * sampleRate);
      }
      const gone = Math.min(skip, samples.length);
      skip -= gone;
      const played = samples.subarray(gone, Math.min(samples.length, gone + left));
      left -= played.length;
      give({ samples: played, sampleRate });
    },
  };
}

/** Takes one packet with each call of `push`. */
async function decoderOf(coding: TrackCoding): Promise<StreamDecoder> {
  switch (coding.codec) {
    case "aac": {
      const config = readAacConfig(coding.description);
      const decoder = await makeAacDecoder();
      return { ...decoder, push: (packet) => decoder.push(joinBytes([adtsHeader(config, packet.length), packet])) };
    }
    case "mp3":
      return makeMp3Decoder();
    case "flac": {
      const decoder = makeFlacDecoder();
      decoder.push(coding.description);
      return decoder;
    }
    case "opus":
      return fromPackets(await makeOpusDecoder(), [coding.description]);
    case "vorbis":
      return fromPackets(await makeVorbisDecoder(), unlaced(coding.description));
    case "alac":
      return makeAlacDecoder(coding.description);
    case "samples":
      return makeSampleReader(coding.format);
    case "other":
      throw new UndecodableAudio(`The file's audio is in a codec that cannot be read (${coding.name}).`);
  }
}

function fromPackets(decoder: PacketDecoder, headers: readonly Uint8Array[]): StreamDecoder {
  decoder.begin(headers);
  let skip = decoder.preSkip;
  return {
    push(packet) {
      const samples = decoder.decode(packet);
      const gone = Math.min(skip, samples.length);
      skip -= gone;
      return { samples: samples.subarray(gone), sampleRate: decoder.sampleRate };
    },
    end: () => ({ samples: new Float32Array(0), sampleRate: decoder.sampleRate }),
    destroy: () => decoder.destroy(),
  };
}

/** The description of AAC in MP4: five bits of kind, four of rate, four of channels. */
function readAacConfig(description: Uint8Array): AdtsConfig {
  const bits = [...description.subarray(0, 8)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const read = (at: number, count: number): number => Number.parseInt(bits.slice(at, at + count), 2);
  const kind = read(0, 5);
  const sampleRate = aacSampleRates[read(5, 4)];
  const channels = read(9, 4);
  // With a band extension the kind of the core comes behind it; the decoder finds the extension by itself.
  const objectType = kind === 5 || kind === 29 ? read(17, 5) : kind;
  if (sampleRate === undefined || !(channels >= 1 && channels <= 7) || !(objectType >= 1 && objectType <= 4)) {
    throw new UndecodableAudio("This kind of AAC is not supported.");
  }
  return { objectType, sampleRate, channels };
}

/** Vorbis's three headers, put together as Matroska does it: how many, the lengths of all but the last, then the headers. */
function unlaced(description: Uint8Array): readonly Uint8Array[] {
  if (description[0] !== 2) throw new UndecodableAudio("The Vorbis header is damaged.");
  let at = 1;
  const lengths = [0, 0].map(() => {
    let length = 0;
    while (description[at] === 255) {
      length += 255;
      at++;
    }
    length += description[at++] ?? 0;
    return length;
  });
  const [first = 0, second = 0] = lengths;
  return [
    description.subarray(at, at + first),
    description.subarray(at + first, at + first + second),
    description.subarray(at + first + second),
  ];
}
