import { flacHeaderAt, type FlacHeader } from "../../../../../src/media/containers/flac-frame.ts";

/** What a frame reader gives when the bytes end inside of the frame. */
export const NeedsMore = Symbol("the frame is longer than what came");

export interface FlacFrame {
  /** Mono, in [-1, 1]. */
  readonly samples: Float32Array;
  /** How long the frame is. */
  readonly bytes: number;
}

/** Reads the frame at the front; `null` where there is none, or a damaged one. `streamBits` counts where the frame itself is silent. */
export type ReadFlacFrame = (bytes: Uint8Array, streamBits: number) => FlacFrame | null | typeof NeedsMore;

const fixedCoefficients: readonly (readonly number[])[] = [[], [1], [2, -1], [3, -3, 1], [4, -6, 4, -1]];

/**
 * FLAC as RFC 9639 has it. It is written here rather than taken from a package: the packages there are decode in promises or
 * wait for the next frame, and a decoder of lossless audio needs no floating point craft.
 */
export function makeFlacFrameReader(): ReadFlacFrame {
  return (bytes, streamBits) => {
    const header = flacHeaderAt(bytes, 0);
    if (header === "more") return NeedsMore;
    if (header === "no") return null;
    try {
      return read(bytes, header, streamBits);
    } catch (error) {
      if (error === outOfBits) return NeedsMore;
      if (error === noFrame) return null;
      throw error;
    }
  };
}

// Thrown inside of this file only, and caught above: the reader is deep in its loops when it finds out.
const outOfBits = new Error("out of bits");
const noFrame = new Error("no frame");

function read(bytes: Uint8Array, { lengthBytes, blockSamples, channelCode, bits: ownBits }: FlacHeader, streamBits: number): FlacFrame {
  const reader = makeBits(bytes, lengthBytes);
  const bits = ownBits === 0 ? streamBits : ownBits;
  if (bits < 4 || bits > 32) throw noFrame;
  const channels: Float64Array[] = [];
  const count = channelCode < 8 ? channelCode + 1 : 2;
  for (let channel = 0; channel < count; channel++) {
    const side = (channelCode === 8 && channel === 1) || (channelCode === 9 && channel === 0) || (channelCode === 10 && channel === 1);
    channels.push(readSubframe(reader, blockSamples, bits + (side ? 1 : 0)));
  }
  reader.align();
  const end = reader.position();
  if (reader.read(16) !== crc16(bytes, end)) throw noFrame;
  return { samples: mixed(channels, channelCode, bits), bytes: end + 2 };
}

function readSubframe(reader: Bits, blockSize: number, givenBits: number): Float64Array {
  if (reader.read(1) !== 0) throw noFrame;
  const kind = reader.read(6);
  const wasted = reader.read(1) === 0 ? 0 : reader.unary() + 1;
  const bits = givenBits - wasted;
  if (bits < 1) throw noFrame;
  const samples = new Float64Array(blockSize);
  if (kind === 0) {
    samples.fill(reader.signed(bits));
  } else if (kind === 1) {
    for (let index = 0; index < blockSize; index++) samples[index] = reader.signed(bits);
  } else if (kind >= 8 && kind <= 12) {
    readPredicted(reader, samples, kind - 8, bits, null);
  } else if (kind >= 32) {
    readPredicted(reader, samples, kind - 31, bits, "linear");
  } else {
    throw noFrame;
  }
  if (wasted > 0) {
    const factor = 2 ** wasted;
    for (let index = 0; index < blockSize; index++) samples[index]! *= factor;
  }
  return samples;
}

function readPredicted(reader: Bits, samples: Float64Array, order: number, bits: number, kind: "linear" | null): void {
  if (order > samples.length) throw noFrame;
  for (let index = 0; index < order; index++) samples[index] = reader.signed(bits);
  let coefficients: readonly number[] = fixedCoefficients[order] ?? [];
  let shift = 0;
  if (kind === "linear") {
    const precision = reader.read(4) + 1;
    if (precision === 16) throw noFrame;
    shift = reader.signed(5);
    if (shift < 0) throw noFrame;
    coefficients = Array.from({ length: order }, () => reader.signed(precision));
  }
  readResidual(reader, samples, order);
  const divisor = 2 ** shift;
  const weights = Float64Array.from(coefficients);
  for (let index = order; index < samples.length; index++) {
    let sum = 0;
    for (let back = 0; back < order; back++) sum += weights[back]! * samples[index - 1 - back]!;
    samples[index]! += Math.floor(sum / divisor);
  }
}

function readResidual(reader: Bits, samples: Float64Array, order: number): void {
  const method = reader.read(2);
  if (method > 1) throw noFrame;
  const width = method === 0 ? 4 : 5;
  const escape = 2 ** width - 1;
  const partitions = 1 << reader.read(4);
  const length = samples.length / partitions;
  if (!Number.isInteger(length) || length < order) throw noFrame;
  for (let partition = 0, at = order; partition < partitions; partition++) {
    const end = (partition + 1) * length;
    const parameter = reader.read(width);
    if (parameter === escape) {
      const bits = reader.read(5);
      for (; at < end; at++) samples[at] = bits === 0 ? 0 : reader.signed(bits);
    } else {
      reader.rice(samples, at, end, parameter);
      at = end;
    }
  }
}

function mixed(channels: readonly Float64Array[], channelCode: number, bits: number): Float32Array {
  const [first = new Float64Array(0), second] = channels;
  const samples = new Float32Array(first.length);
  const scale = 2 ** (bits - 1);
  if (channelCode >= 8 && second !== undefined) {
    for (let index = 0; index < samples.length; index++) {
      const a = first[index]!;
      const b = second[index]!;
      // Left and side, side and right, or middle and side: the average of left and right is what is wanted.
      const double = channelCode === 8 ? 2 * a - b : channelCode === 9 ? a + 2 * b : 2 * a + (b & 1);
      samples[index] = double / (2 * scale);
    }
    return samples;
  }
  for (const channel of channels)
    for (let index = 0; index < samples.length; index++) samples[index]! += channel[index]! / scale / channels.length;
  return samples;
}

interface Bits {
  /** Up to 32 bits, without sign. */
  read(count: number): number;
  /** Up to 33 bits, with sign. */
  signed(count: number): number;
  /** The zeros in front of the next one. */
  unary(): number;
  rice(samples: Float64Array, from: number, to: number, parameter: number): void;
  align(): void;
  /** In bytes; only where it is aligned. */
  position(): number;
}

function makeBits(bytes: Uint8Array, from: number): Bits {
  const total = bytes.length * 8;
  let at = from * 8;

  const read = (count: number): number => {
    if (at + count > total) throw outOfBits;
    let value = 0;
    let left = count;
    while (left > 0) {
      const offset = at & 7;
      const take = Math.min(8 - offset, left);
      const part = (bytes[at >> 3]! >> (8 - offset - take)) & ((1 << take) - 1);
      value = value * (1 << take) + part;
      at += take;
      left -= take;
    }
    return value;
  };

  const unary = (): number => {
    let zeros = 0;
    for (;;) {
      if (at >= total) throw outOfBits;
      const offset = at & 7;
      const rest = (bytes[at >> 3]! << (24 + offset)) >>> 0;
      if (rest !== 0) {
        const more = Math.clz32(rest);
        at += more + 1;
        return zeros + more;
      }
      zeros += 8 - offset;
      at += 8 - offset;
    }
  };

  return {
    read,
    signed(count) {
      const value = read(count);
      const half = 2 ** (count - 1);
      return value >= half ? value - half * 2 : value;
    },
    unary,
    rice(samples, from, to, parameter) {
      const factor = 2 ** parameter;
      for (let index = from; index < to; index++) {
        const high = unary();
        const value = parameter === 0 ? high : high * factor + read(parameter);
        samples[index] = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      }
    },
    align() {
      at = (at + 7) & ~7;
    },
    position: () => at >> 3,
  };
}

function crc16(bytes: Uint8Array, end: number): number {
  let sum = 0;
  for (let index = 0; index < end; index++) sum = ((sum << 8) & 0xff_ff) ^ table16[(sum >> 8) ^ bytes[index]!]!;
  return sum;
}

const table16 = Uint16Array.from({ length: 256 }, (_, index) => {
  let sum = index << 8;
  for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ ((sum & 0x80_00) === 0 ? 0 : 0x1_80_05);
  return sum;
});
