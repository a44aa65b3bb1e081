import { viewOf } from "../../../../../src/media/containers/bytes.ts";

/** Gives the samples of one block, mono: the mean of its channels. A block that is cut gives what is there of it. */
export type BlockDecoder = (block: Uint8Array) => Float32Array;

/** IMA ADPCM as WAV has it: each channel begins with its own first sample, then eight samples of each in turn. */
export function imaWavBlock(channels: number): BlockDecoder {
  const states = Array.from({ length: channels }, () => ({ sample: 0, index: 0 }));
  return (block) => {
    const view = viewOf(block);
    const headBytes = 4 * channels;
    if (block.length < headBytes) return none;
    const groups = Math.floor((block.length - headBytes) / headBytes);
    const samples = new Float32Array(1 + groups * 8);
    for (let channel = 0; channel < channels; channel++) {
      const state = states[channel]!;
      state.sample = view.getInt16(channel * 4, true);
      state.index = Math.min(88, view.getUint8(channel * 4 + 2));
      samples[0]! += state.sample;
      for (let group = 0; group < groups; group++) {
        const at = headBytes + (group * channels + channel) * 4;
        for (let pair = 0; pair < 4; pair++) {
          const byte = block[at + pair]!;
          samples[1 + group * 8 + pair * 2]! += imaStep(state, byte & 15);
          samples[2 + group * 8 + pair * 2]! += imaStep(state, byte >> 4);
        }
      }
    }
    return scaled(samples, channels);
  };
}

/** IMA ADPCM as QuickTime, AIFF and CAF have it: 64 samples of one channel in 34 bytes, then those of the next. */
export function imaQuickTimeBlock(channels: number): BlockDecoder {
  const states = Array.from({ length: channels }, () => ({ sample: 0, index: 0 }));
  return (block) => {
    if (block.length < 34 * channels) return none;
    const view = viewOf(block);
    const samples = new Float32Array(64);
    for (let channel = 0; channel < channels; channel++) {
      const state = states[channel]!;
      const head = view.getInt16(channel * 34);
      const sample = head & ~0x7f;
      const index = Math.min(88, head & 0x7f);
      // The head has the upper nine bits only: where it says what is known already, that is known more exactly.
      if (state.index !== index || Math.abs(state.sample - sample) > 0x7f) state.sample = sample;
      state.index = index;
      for (let at = 0; at < 32; at++) {
        const byte = block[channel * 34 + 2 + at]!;
        samples[at * 2]! += imaStep(state, byte & 15);
        samples[at * 2 + 1]! += imaStep(state, byte >> 4);
      }
    }
    return scaled(samples, channels);
  };
}

interface ImaState {
  sample: number;
  index: number;
}

function imaStep(state: ImaState, bits: number): number {
  const step = imaSteps[state.index]!;
  let change = step >> 3;
  if ((bits & 4) !== 0) change += step;
  if ((bits & 2) !== 0) change += step >> 1;
  if ((bits & 1) !== 0) change += step >> 2;
  state.sample = clamped((bits & 8) === 0 ? state.sample + change : state.sample - change);
  state.index = Math.max(0, Math.min(88, state.index + imaIndexSteps[bits & 7]!));
  return state.sample;
}

const imaIndexSteps = [-1, -1, -1, -1, 2, 4, 6, 8];
const imaSteps = [
  7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107, 118, 130, 143, 157, 173,
  190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796, 876, 963, 1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066,
  2272, 2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132, 7845, 8630, 9493, 10_442, 11_487, 12_635, 13_899, 15_289,
  16_818, 18_500, 20_350, 22_385, 24_623, 27_086, 29_794, 32_767,
];

/** Microsoft's ADPCM: a prediction from the two samples before, by one of seven pairs of factors. */
export function microsoftBlock(channels: number): BlockDecoder {
  return (block) => {
    const headBytes = 7 * channels;
    if (block.length < headBytes) return none;
    const view = viewOf(block);
    const states = Array.from({ length: channels }, (_, channel) => ({
      factors: microsoftFactors[Math.min(6, view.getUint8(channel))]!,
      step: view.getInt16(channels + channel * 2, true),
      last: view.getInt16(channels * 3 + channel * 2, true),
      before: view.getInt16(channels * 5 + channel * 2, true),
    }));
    const samples = new Float32Array(2 + Math.floor(((block.length - headBytes) * 2) / channels));
    for (const { last, before } of states) {
      samples[0]! += before;
      samples[1]! += last;
    }
    for (let at = 2 * channels; at < samples.length * channels; at++) {
      const byte = block[headBytes + ((at - 2 * channels) >> 1)]!;
      const bits = (at & 1) === 0 ? byte >> 4 : byte & 15;
      const state = states[at % channels]!;
      const predicted = (state.last * state.factors[0] + state.before * state.factors[1]) >> 8;
      state.before = state.last;
      state.last = clamped(predicted + (bits >= 8 ? bits - 16 : bits) * state.step);
      state.step = Math.max(16, Math.min(stepMax, (microsoftSteps[bits]! * state.step) >> 8));
      samples[Math.floor(at / channels)]! += state.last;
    }
    return scaled(samples, channels);
  };
}

const microsoftFactors: readonly (readonly [number, number])[] = [
  [256, 0],
  [512, -256],
  [0, 0],
  [192, 64],
  [240, 0],
  [460, -208],
  [392, -232],
];
const microsoftSteps = [230, 230, 230, 230, 307, 409, 512, 614, 768, 614, 512, 409, 307, 230, 230, 230];
/** Beyond this the next product would not fit into 32 bits. */
const stepMax = 0x7fff_ffff >> 10;

const none = new Float32Array(0);

function scaled(samples: Float32Array, channels: number): Float32Array {
  const scale = 1 / (32_768 * channels);
  return samples.map((sample) => sample * scale);
}

function clamped(sample: number): number {
  return Math.max(-32_768, Math.min(32_767, sample));
}
