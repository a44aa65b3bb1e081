/** Where to cut, and whether that is in a silence. */
export interface Quietest {
  readonly at: number;
  readonly silent: boolean;
}

export interface CutRange {
  readonly samples: Int16Array;
  readonly sampleRate: number;
  /** The range of the cut. */
  readonly from: number;
  readonly to: number;
}

const frameSeconds = 0.02;
/** A pause between sentences is longer than this; a gap within a word is shorter. */
const pauseFrames = 12;
/** Silence is 18 dB below the voice. */
const silenceShare = 0.125;
/** Below -60 dB of full scale, everything is silence. */
const silenceFloor = 0.001;

/** The middle of the longest of the quietest pauses in a range. What counts as silence depends on how loud the recording is before it. */
export function quietest({ samples, sampleRate, from, to }: CutRange): Quietest {
  const frame = Math.max(1, Math.round(sampleRate * frameSeconds));
  const levels = energies(samples.subarray(from, to), frame);
  const pauses = averages(levels, pauseFrames);
  if (pauses.length === 0) return { at: to, silent: false };
  const least = pauses.reduce((a, b) => Math.min(a, b));
  const voice = loudness(energies(samples.subarray(0, to), frame));
  const threshold = Math.max(silenceFloor, voice * silenceShare) ** 2;
  const { begin, end } = longestRun(pauses, Math.max(silenceFloor ** 2, least * 2));
  const middle = Math.round(((begin + end - 1 + pauseFrames) / 2) * frame);
  return { at: Math.min(to, from + middle), silent: least <= threshold };
}

/** The mean square of each frame; full scale is 1. */
function energies(samples: Int16Array, frame: number): Float64Array {
  const found = new Float64Array(Math.floor(samples.length / frame));
  for (let index = 0; index < found.length; index++) {
    let sum = 0;
    for (let at = index * frame; at < (index + 1) * frame; at++) sum += samples[at]! * samples[at]!;
    found[index] = sum / frame / 32_768 ** 2;
  }
  return found;
}

function averages(values: Float64Array, width: number): Float64Array {
  const found = new Float64Array(Math.max(0, values.length - width + 1));
  for (let index = 0; index < found.length; index++) {
    let sum = 0;
    for (let at = index; at < index + width; at++) sum += values[at]!;
    found[index] = sum / width;
  }
  return found;
}

/** The 90th percentile of the levels. */
function loudness(levels: Float64Array): number {
  return Math.sqrt(levels.toSorted()[Math.floor(levels.length * 0.9)] ?? 0);
}

function longestRun(values: Float64Array, max: number): { readonly begin: number; readonly end: number } {
  let longest = { begin: 0, end: 0 };
  let begin = 0;
  for (let at = 0; at <= values.length; at++) {
    if (at < values.length && values[at]! <= max) continue;
    if (at - begin >= longest.end - longest.begin) longest = { begin, end: at };
    begin = at + 1;
  }
  return longest;
}
