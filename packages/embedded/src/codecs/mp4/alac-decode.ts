import { sampleRateMax, sampleRateMin } from "../resample.ts";
import { viewOf } from "../../../../../src/media/containers/bytes.ts";
import { UndecodableAudio, type StreamDecoder } from "../codec.ts";

/** Apple Lossless: takes one packet with each call of `push`. `facts` is the codec's own description (its "magic cookie"). */
export function makeAlacDecoder(facts: Uint8Array): StreamDecoder {
  const config = readConfig(facts);
  const { sampleRate } = config;
  return {
    push: (packet) => ({ samples: packet.length === 0 ? none : decodePacket(packet, config), sampleRate }),
    end: () => ({ samples: none, sampleRate }),
    destroy() {},
  };
}

const none = new Float32Array(0);

interface AlacConfig {
  readonly frameLength: number;
  readonly bits: number;
  /** How quickly the coder of the residue learns, what it starts with, and its longest plain part. */
  readonly historyFactor: number;
  readonly historyStart: number;
  readonly riceBitsMax: number;
  readonly channels: number;
  readonly sampleRate: number;
}

function readConfig(facts: Uint8Array): AlacConfig {
  if (facts.length < 24) throw new UndecodableAudio("The ALAC header is damaged.");
  const view = viewOf(facts);
  const config = {
    frameLength: view.getUint32(0),
    bits: facts[5]!,
    historyFactor: facts[6]!,
    historyStart: facts[7]!,
    riceBitsMax: facts[8]!,
    channels: facts[9]!,
    sampleRate: view.getUint32(20),
  };
  const isKnown =
    facts[4] === 0 &&
    config.frameLength > 0 &&
    config.frameLength <= frameLengthMax &&
    [16, 20, 24, 32].includes(config.bits) &&
    config.riceBitsMax >= 1 &&
    config.riceBitsMax <= 30 &&
    config.channels >= 1 &&
    config.channels <= 8 &&
    config.sampleRate >= sampleRateMin &&
    config.sampleRate <= sampleRateMax;
  if (!isKnown) throw new UndecodableAudio("This kind of ALAC is not supported.");
  return config;
}

/** Encoders write 4096, and none more than this. */
const frameLengthMax = 1 << 16;

const elements = { single: 0, pair: 1, low: 3, end: 7 } as const;

function decodePacket(packet: Uint8Array, config: AlacConfig): Float32Array {
  const bits = new BitReader(packet);
  const sum = new Float64Array(config.frameLength);
  let length = 0;
  let channels = 0;
  while (channels < config.channels) {
    const kind = bits.read(3);
    if (kind === elements.end) break;
    if (kind !== elements.single && kind !== elements.pair && kind !== elements.low) throw damaged();
    const decoded = decodeElement(bits, kind === elements.pair ? 2 : 1, config);
    for (const samples of decoded) {
      length = Math.max(length, samples.length);
      for (let at = 0; at < samples.length; at++) sum[at]! += samples[at]!;
      channels++;
    }
  }
  if (channels === 0) return none;
  const scale = 2 ** (config.bits - 1) * channels;
  return Float32Array.from(sum.subarray(0, length), (sample) => sample / scale);
}

function decodeElement(bits: BitReader, channels: 1 | 2, config: AlacConfig): readonly Int32Array[] {
  bits.read(4);
  if (bits.read(12) !== 0) throw damaged();
  const isPartial = bits.read(1) === 1;
  const shiftedBits = bits.read(2) * 8;
  const isPlain = bits.read(1) === 1;
  const length = isPartial ? bits.read(32) : config.frameLength;
  if (length > config.frameLength || shiftedBits >= Math.min(24, config.bits)) throw damaged();
  const samples = Array.from({ length: channels }, () => new Int32Array(length));
  if (isPlain) {
    bits.need(length * channels * config.bits);
    for (let at = 0; at < length; at++) for (const one of samples) one[at] = bits.readSigned(config.bits);
    return samples;
  }
  const mixBits = bits.read(8);
  const mixFactor = bits.readSigned(8);
  const filters = samples.map(() => readFilter(bits));
  // The lowest bits of long samples stand in front, as they are.
  const low = bits.at;
  bits.skip(shiftedBits * length * channels);
  const width = config.bits - shiftedBits + (channels - 1);
  samples.forEach((one, index) => {
    const filter = filters[index]!;
    readResidue(bits, one, width, Math.floor((config.historyFactor * filter.historyShare) / 4), config);
    if (filter.mode !== 0) predict(one, runningSum, width);
    predict(one, filter, width);
  });
  const [first, second] = samples;
  if (second !== undefined && mixFactor !== 0) unmix(first!, second, mixBits, mixFactor);
  if (shiftedBits > 0) {
    const lowBits = bits.from(low);
    for (let at = 0; at < length; at++) for (const one of samples) one[at] = (one[at]! << shiftedBits) | lowBits.read(shiftedBits);
  }
  return samples;
}

interface Filter {
  readonly mode: number;
  readonly shift: number;
  readonly historyShare: number;
  /** They are learned on the way. */
  readonly factors: Int16Array;
}

const runningSum: Filter = { mode: 0, shift: 0, historyShare: 0, factors: new Int16Array(31) };

function readFilter(bits: BitReader): Filter {
  const mode = bits.read(4);
  const shift = bits.read(4);
  const historyShare = bits.read(3);
  const factors = new Int16Array(bits.read(5));
  for (let index = 0; index < factors.length; index++) factors[index] = bits.readSigned(16);
  return { mode, shift, historyShare, factors };
}

/** What the prediction was wrong by: an adaptive Golomb code, with runs of zeros on their own. */
function readResidue(bits: BitReader, into: Int32Array, width: number, factor: number, { historyStart, riceBitsMax }: AlacConfig): void {
  let history = historyStart;
  let isBehindZeros = 0;
  for (let at = 0; at < into.length;) {
    const parameter = Math.min(riceBitsMax, 31 - Math.clz32((history >> 9) + 3));
    const value = bits.readRice(parameter, (1 << parameter) - 1, width) + isBehindZeros;
    into[at++] = (value & 1) === 0 ? value / 2 : -((value + 1) / 2);
    history = value - isBehindZeros > 0xff_ff ? 0xff_ff : history + value * factor - Math.floor((history * factor) / 512);
    isBehindZeros = 0;
    if (history * 4 >= 512 || at >= into.length) continue;
    const runParameter = Math.clz32(history) - 24 + ((history + 16) >> 6);
    const zeros = bits.readRice(runParameter, ((1 << runParameter) - 1) & ((1 << riceBitsMax) - 1), 16);
    if (at + zeros > into.length) throw damaged();
    at += zeros;
    isBehindZeros = zeros >= 0xff_ff ? 0 : 1;
    history = 0;
  }
}

/** Puts the prediction back, in place. The factors follow the sign of what was wrong. */
function predict(samples: Int32Array, { factors, shift }: Filter, width: number): void {
  const unused = 32 - width;
  const order = factors.length;
  if (order === 0) return;
  const warm = order === 31 ? samples.length - 1 : Math.min(order, samples.length - 1);
  for (let at = 1; at <= warm; at++) samples[at] = ((samples[at]! + samples[at - 1]!) << unused) >> unused;
  const half = shift === 0 ? 0 : 1 << (shift - 1);
  for (let at = warm + 1; at < samples.length; at++) {
    const base = samples[at - order - 1]!;
    let sum = 0;
    for (let index = 0; index < order; index++) sum = (sum + Math.imul(factors[index]!, samples[at - 1 - index]! - base)) | 0;
    let wrong = samples[at]!;
    const sign = Math.sign(wrong);
    samples[at] = ((wrong + base + ((sum + half) >> shift)) << unused) >> unused;
    for (let index = order - 1; index >= 0 && wrong * sign > 0; index--) {
      const difference = base - samples[at - 1 - index]!;
      const step = Math.sign(difference) * sign;
      factors[index]! -= step;
      wrong -= (order - index) * ((step * difference) >> shift);
    }
  }
}

function unmix(first: Int32Array, second: Int32Array, bits: number, factor: number): void {
  for (let at = 0; at < first.length; at++) {
    const difference = second[at]!;
    const left = first[at]! + difference - (Math.imul(factor, difference) >> bits);
    first[at] = left;
    second[at] = left - difference;
  }
}

/** Reads bits from the front of bytes; behind the end there is damage. */
class BitReader {
  at = 0;
  private readonly length: number;

  constructor(private readonly bytes: Uint8Array) {
    this.length = bytes.length * 8;
  }

  from(at: number): BitReader {
    const other = new BitReader(this.bytes);
    other.at = at;
    return other;
  }

  need(count: number): void {
    if (this.at + count > this.length) throw damaged();
  }

  skip(count: number): void {
    this.need(count);
    this.at += count;
  }

  /** Up to 32. */
  read(count: number): number {
    if (count > 16) return this.read(count - 16) * 2 ** 16 + this.read(16);
    this.need(count);
    const value = count === 0 ? 0 : this.ahead() >>> (32 - count);
    this.at += count;
    return value;
  }

  /** The next bits from the top of a number, at least 25 of them; behind the end there are zeros. */
  private ahead(): number {
    const at = this.at >> 3;
    const { bytes } = this;
    const word = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    return word << (this.at & 7);
  }

  readSigned(count: number): number {
    const value = this.read(count);
    return value >= 2 ** (count - 1) ? value - 2 ** count : value;
  }

  /** As many ones as `factor` fits in, then the rest; behind nine ones, the number as it is. */
  readRice(parameter: number, factor: number, plainBits: number): number {
    const ones = Math.min(9, Math.clz32(~this.ahead()));
    this.skip(ones < 9 ? ones + 1 : 9);
    if (ones === 9) return this.read(plainBits);
    if (parameter === 1) return ones * factor;
    // Nothing and one are both written as nothing, one bit shorter. At the very end that bit may not be there.
    const rest = this.read(parameter - 1) * 2;
    if (rest < 2) return ones * factor;
    return ones * factor + rest + this.read(1) - 1;
  }
}

function damaged(): UndecodableAudio {
  return new UndecodableAudio("The ALAC audio is damaged.");
}
