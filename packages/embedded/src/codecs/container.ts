import { BufferSource, EncodedPacketSink, Input, Logging, LogLevel, MATROSKA, MP4, QTFF, WEBM } from "mediabunny";
import { makeAacDecoder } from "./aac-decode.ts";
import { adtsHeader, type AdtsConfig } from "./adts.ts";
import type { Decoded, StreamDecoder } from "./decode.ts";
import { makeFlacDecoder } from "./flac-decode.ts";
import { joinBytes } from "./joined.ts";
import { makeMp3Decoder } from "./mp3-decode.ts";
import { makeOpusDecoder } from "./opus-decode.ts";
import type { PacketDecoder } from "./packet-decoder.ts";
import { UndecodableAudio } from "./undecodable.ts";
import { makeVorbisDecoder } from "./vorbis-decode.ts";

/** Two hours of the shortest packets there are; a table in the file may claim any number. */
const packetsMax = 3_000_000;
const streamSliceBytes = 4096;

/** Gives the audio of the first audio track in a WebM or MP4 file. */
export async function demux(source: Uint8Array, give: (decoded: Decoded) => void): Promise<void> {
  Logging.level = LogLevel.Silent;
  const input = new Input({ formats: [MP4, QTFF, WEBM, MATROSKA], source: new BufferSource(source) });
  try {
    const track = await input.getPrimaryAudioTrack();
    if (track === null) throw new UndecodableAudio("There is no audio in the file.");
    const codec = await track.getCodec();
    const config = await track.getDecoderConfig();
    const decoder = await decoderOf(codec, bytesOf(config?.description));
    // A packet is as long as the file says, and a few bytes of these may stand for minutes; the others want it whole.
    const sliceBytes = codec === "flac" || codec === "mp3" ? streamSliceBytes : Infinity;
    try {
      const trimmed = makeTrim(give);
      let packets = 0;
      for await (const packet of new EncodedPacketSink(track).packets()) {
        if (packets === 0) trimmed.lead(packet.timestamp);
        if (++packets > packetsMax) throw new UndecodableAudio("The audio is too long: it may last two hours.");
        for (const slice of slices(packet.data, sliceBytes)) trimmed.give(decoder.push(slice));
      }
      trimmed.give(decoder.end());
    } finally {
      decoder.destroy();
    }
  } finally {
    input.dispose();
  }
}

function* slices(bytes: Uint8Array, sliceBytes: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += sliceBytes) yield bytes.subarray(at, Math.min(bytes.length, at + sliceBytes));
}

/** What the file places before its own beginning is the encoder's delay, and is not given. */
function makeTrim(give: (decoded: Decoded) => void): { lead(timestamp: number): void; give(decoded: Decoded): void } {
  let skipSeconds = 0;
  let skip: number | null = null;
  return {
    lead(timestamp) {
      skipSeconds = timestamp < 0 && timestamp > -1 ? -timestamp : 0;
    },
    give({ samples, sampleRate }) {
      if (samples.length === 0) return;
      skip ??= Math.round(skipSeconds * sampleRate);
      const gone = Math.min(skip, samples.length);
      skip -= gone;
      give({ samples: samples.subarray(gone), sampleRate });
    },
  };
}

/** Takes one packet with each call of `push`. */
async function decoderOf(codec: string | null, description: Uint8Array): Promise<StreamDecoder> {
  switch (codec) {
    case "aac": {
      const config = readAacConfig(description);
      const decoder = await makeAacDecoder();
      return { ...decoder, push: (packet) => decoder.push(joinBytes([adtsHeader(config, packet.length), packet])) };
    }
    case "mp3":
      return makeMp3Decoder();
    case "flac": {
      const decoder = makeFlacDecoder();
      decoder.push(description);
      return decoder;
    }
    case "opus":
      return fromPackets(await makeOpusDecoder(), [description]);
    case "vorbis":
      return fromPackets(await makeVorbisDecoder(), unlaced(description));
    default:
      throw new UndecodableAudio(`The file's audio is in a codec that cannot be read${codec === null ? "" : ` (${codec})`}.`);
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

const aacRates: readonly number[] = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000, 7350];

/** The description of AAC in MP4: five bits of kind, four of rate, four of channels. */
function readAacConfig(description: Uint8Array): AdtsConfig {
  const bits = [...description.subarray(0, 8)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const read = (at: number, count: number): number => Number.parseInt(bits.slice(at, at + count), 2);
  const kind = read(0, 5);
  const sampleRate = aacRates[read(5, 4)];
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

function bytesOf(description: AllowSharedBufferSource | undefined): Uint8Array {
  if (description === undefined) return new Uint8Array(0);
  return ArrayBuffer.isView(description)
    ? new Uint8Array(description.buffer, description.byteOffset, description.byteLength)
    : new Uint8Array(description);
}
