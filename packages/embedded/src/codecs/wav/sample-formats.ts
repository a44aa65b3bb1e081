import { imaWavBlock, imaQuickTimeBlock, microsoftBlock, type BlockDecoder } from "./adpcm.ts";
import { joinBytes } from "../bytes.ts";
import { sampleRateMax, sampleRateMin } from "../resample.ts";
import { UndecodableAudio, type StreamDecoder } from "../codec.ts";

/** How samples are written that no codec has packed, or one of the old codecs that write so many bits for each sample. */
export interface SampleFormat {
  readonly kind: "signed" | "unsigned" | "float" | "ulaw" | "alaw" | "ima-wav" | "ima-quicktime" | "adpcm-microsoft";
  readonly sampleRate: number;
  readonly channels: number;
  /** Of all channels together: of one moment, or of a block of those codecs that have blocks. */
  readonly blockBytes: number;
  readonly littleEndian: boolean;
}

export const channelsMax = 64;

/** How many moments of sound are in one block. */
export function blockFrames({ kind, channels, blockBytes }: SampleFormat): number {
  switch (kind) {
    case "ima-wav":
      return Math.floor((blockBytes - 4 * channels) / (4 * channels)) * 8 + 1;
    case "ima-quicktime":
      return 64;
    case "adpcm-microsoft":
      return Math.floor(((blockBytes - 7 * channels) * 2) / channels) + 2;
    default:
      return 1;
  }
}

/** Takes bytes cut anywhere. Throws where nobody writes samples like this. */
export function makeSampleReader(format: SampleFormat): StreamDecoder {
  check(format);
  const { blockBytes, sampleRate } = format;
  const decode = blocksDecoder(format);
  let held = new Uint8Array(0);
  const read = (bytes: Uint8Array, end: boolean): Float32Array => {
    const all = held.length === 0 ? bytes : joinBytes([held, bytes]);
    const usable = end ? all.length : all.length - (all.length % blockBytes);
    held = all.slice(usable);
    return decode(all.subarray(0, usable));
  };
  return {
    push: (bytes) => ({ samples: read(bytes, false), sampleRate }),
    // The last block of the codecs that have blocks may be a short one.
    end: () => ({ samples: isPlain(format) ? none : read(none8, true), sampleRate }),
    destroy() {},
  };
}

const none = new Float32Array(0);
const none8 = new Uint8Array(0);

export function isPlain({ kind }: SampleFormat): boolean {
  return kind !== "ima-wav" && kind !== "ima-quicktime" && kind !== "adpcm-microsoft";
}

function check(format: SampleFormat): void {
  const { kind, sampleRate, channels, blockBytes } = format;
  if (!(channels >= 1 && channels <= channelsMax) || !(sampleRate >= sampleRateMin && sampleRate <= sampleRateMax)) {
    throw new UndecodableAudio("The rate or number of channels of the audio is not supported.");
  }
  const isKnown = isPlain(format)
    ? sampleBytesOf[kind as keyof typeof sampleBytesOf].includes(blockBytes / channels)
    : channels <= 2 &&
      blockBytes <= blockBytesMax &&
      blockFrames(format) >= 1 &&
      (kind !== "ima-quicktime" || blockBytes === 34 * channels);
  if (!isKnown) throw new UndecodableAudio("The samples of the audio are written in a way that is not supported.");
}

const blockBytesMax = 1 << 16;
const sampleBytesOf = { signed: [1, 2, 3, 4], unsigned: [1], float: [4, 8], ulaw: [1], alaw: [1] } as const satisfies Record<
  string,
  readonly number[]
> as Readonly<Record<"signed" | "unsigned" | "float" | "ulaw" | "alaw", readonly number[]>>;

function blocksDecoder(format: SampleFormat): (bytes: Uint8Array) => Float32Array {
  if (isPlain(format)) return (bytes) => plainSamples(bytes, format);
  const { blockBytes, channels } = format;
  const decode = blockDecoder(format.kind, channels);
  return (bytes) => {
    const samples = new Float32Array(Math.ceil(bytes.length / blockBytes) * blockFrames(format));
    let length = 0;
    for (let at = 0; at < bytes.length; at += blockBytes) {
      const block = decode(bytes.subarray(at, Math.min(bytes.length, at + blockBytes)));
      samples.set(block, length);
      length += block.length;
    }
    return samples.subarray(0, length);
  };
}

function blockDecoder(kind: SampleFormat["kind"], channels: number): BlockDecoder {
  if (kind === "ima-wav") return imaWavBlock(channels);
  return kind === "ima-quicktime" ? imaQuickTimeBlock(channels) : microsoftBlock(channels);
}

/** The mean of the channels. */
function plainSamples(bytes: Uint8Array, format: SampleFormat): Float32Array {
  const { channels, blockBytes } = format;
  const sampleBytes = blockBytes / channels;
  const read = readerOf(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), format, sampleBytes);
  const samples = new Float32Array(Math.floor(bytes.length / blockBytes));
  for (let frame = 0; frame < samples.length; frame++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) sum += read(frame * blockBytes + channel * sampleBytes);
    samples[frame] = sum / channels || 0;
  }
  return samples;
}

function readerOf(view: DataView, { kind, littleEndian }: SampleFormat, sampleBytes: number): (at: number) => number {
  if (kind === "ulaw") return (at) => ulaw[view.getUint8(at)]!;
  if (kind === "alaw") return (at) => alaw[view.getUint8(at)]!;
  if (kind === "float") return sampleBytes === 8 ? (at) => view.getFloat64(at, littleEndian) : (at) => view.getFloat32(at, littleEndian);
  if (kind === "unsigned") return (at) => (view.getUint8(at) - 128) / 128;
  switch (sampleBytes) {
    case 1:
      return (at) => view.getInt8(at) / 128;
    case 2:
      return (at) => view.getInt16(at, littleEndian) / 32_768;
    case 3:
      return littleEndian
        ? (at) => ((view.getInt8(at + 2) << 16) | view.getUint16(at, true)) / 8_388_608
        : (at) => ((view.getInt16(at) << 8) | view.getUint8(at + 2)) / 8_388_608;
    default:
      return (at) => view.getInt32(at, littleEndian) / 2_147_483_648;
  }
}

/** The sample that each byte stands for, in the two ways of telephony (ITU-T G.711). */
const ulaw: Float32Array = table((byte) => {
  const bits = ~byte & 0xff;
  const size = ((((bits & 15) << 3) + 0x84) << ((bits >> 4) & 7)) - 0x84;
  return (bits & 0x80) === 0 ? size : -size;
});

const alaw: Float32Array = table((byte) => {
  const bits = byte ^ 0x55;
  const segment = (bits >> 4) & 7;
  const base = ((bits & 15) << 4) + 8;
  const size = segment === 0 ? base : (base + 0x100) << (segment - 1);
  return (bits & 0x80) === 0 ? -size : size;
});

function table(sample: (byte: number) => number): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => sample(byte) / 32_768);
}
