import { joinSamples } from "./bytes.ts";

/** Turns samples of one rate into those of another, as they come. What it gives over all its calls does not depend on how its input was cut. */
export interface Resampler {
  push(samples: Float32Array): Float32Array;
  /** No more will come: the rest. */
  end(): Float32Array;
}

/** Zero crossings of the sinc on each side of its middle, in samples of the lower rate. */
const crossings = 24;
/** The part of the lower rate's band that is kept; the rest is where the filter falls. */
const kept = 0.94;
/** Kaiser's parameter for about 90 dB below in the stop band. */
const beta = 9;
/** Positions between two samples for which the filter is kept ready; where the rates need more, neighbours are mixed. */
const phasesMax = 1024;

export const sampleRateMin = 1000;
export const sampleRateMax = 384_000;

/** All samples at once; a windowed sinc, so what the new rate cannot hold is gone and does not fold back. */
export function resample(samples: Float32Array, fromRate: number, toRate: number): Float32Array {
  const resampler = makeResampler(fromRate, toRate);
  return joinSamples([resampler.push(samples), resampler.end()]);
}

export function makeResampler(fromRate: number, toRate: number): Resampler {
  checkRate(fromRate);
  checkRate(toRate);
  if (fromRate === toRate) return { push: (samples) => samples, end: () => new Float32Array(0) };

  const divisor = greatestCommonDivisor(fromRate, toRate);
  const up = toRate / divisor;
  const down = fromRate / divisor;
  const filter = filterFor(up, down);
  const { taps, phases, table } = filter;
  const half = taps / 2;
  const exact = phases === up;

  // What came and is still needed; it begins with silence, so that the first sample lies in the middle of the filter.
  let held = new Float32Array(half - 1);
  // Where the next output lies: behind this sample of `held`, by this many parts of `up`.
  let whole = 0;
  let part = 0;
  let taken = 0;
  let given = 0;

  const run = (count: number): Float32Array => {
    const output = new Float32Array(count);
    for (let index = 0; index < count; index++) {
      let sum = 0;
      if (exact) {
        const row = part * taps;
        for (let tap = 0; tap < taps; tap++) sum += held[whole + tap]! * table[row + tap]!;
      } else {
        const position = (part * phases) / up;
        const phase = Math.floor(position);
        const share = position - phase;
        const row = phase * taps;
        for (let tap = 0; tap < taps; tap++) {
          const here = table[row + tap]!;
          sum += held[whole + tap]! * (here + share * (table[row + taps + tap]! - here));
        }
      }
      output[index] = sum;
      part += down;
      const steps = Math.floor(part / up);
      whole += steps;
      part -= steps * up;
    }
    given += count;
    return output;
  };

  /** How many outputs the held samples suffice for. */
  const ready = (): number => {
    const room = held.length - taps - whole;
    return room < 0 ? 0 : Math.floor((room * up + up - 1 - part) / down) + 1;
  };

  const take = (samples: Float32Array): void => {
    // A low rate made of a high one steps far: the next output may lie beyond all that is held.
    const gone = Math.min(whole, held.length);
    const next = new Float32Array(held.length - gone + samples.length);
    next.set(held.subarray(gone));
    next.set(samples, held.length - gone);
    held = next;
    whole -= gone;
  };

  return {
    push(samples) {
      taken += samples.length;
      take(samples);
      return run(ready());
    },
    end() {
      take(new Float32Array(half + 1 + Math.ceil(down / up)));
      const total = Math.ceil((taken * up) / down);
      return run(Math.max(0, Math.min(ready(), total - given)));
    },
  };
}

interface Filter {
  readonly taps: number;
  readonly phases: number;
  /** A row of taps for each phase, and one more for the mixing of neighbours. */
  readonly table: Float32Array;
}

// The pairs that occur are few; a table takes longer to make than a second of audio to filter.
const filters = new Map<string, Filter>();
const filtersMax = 16;

function filterFor(up: number, down: number): Filter {
  const key = `${up}/${down}`;
  const known = filters.get(key);
  if (known !== undefined) return known;
  const made = makeFilter(up, down);
  if (filters.size >= filtersMax) filters.clear();
  filters.set(key, made);
  return made;
}

function makeFilter(up: number, down: number): Filter {
  const phases = Math.min(up, phasesMax);
  const scale = Math.min(1, up / down);
  const half = Math.ceil(crossings / scale);
  const taps = half * 2;
  const cutoff = scale * kept;
  const table = new Float32Array((phases + 1) * taps);
  const row = new Float64Array(taps);
  for (let phase = 0; phase <= phases; phase++) {
    let sum = 0;
    for (let tap = 0; tap < taps; tap++) {
      const distance = tap - (half - 1) - phase / phases;
      row[tap] = sinc(distance * cutoff) * kaiser(distance / half);
      sum += row[tap]!;
    }
    // Each phase lets a constant through unchanged, else the phases' differences would be heard as a tone.
    for (let tap = 0; tap < taps; tap++) table[phase * taps + tap] = row[tap]! / sum;
  }
  return { taps, phases, table };
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

function kaiser(x: number): number {
  return Math.abs(x) >= 1 ? 0 : bessel(beta * Math.sqrt(1 - x * x)) / bessel(beta);
}

/** The modified Bessel function of the first kind and order zero, by its series. */
function bessel(x: number): number {
  let term = 1;
  let sum = 1;
  for (let index = 1; term > sum * 1e-12; index++) {
    term *= (x / (2 * index)) ** 2;
    sum += term;
  }
  return sum;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

function checkRate(rate: number): void {
  if (!Number.isInteger(rate) || rate < sampleRateMin || rate > sampleRateMax) {
    throw new RangeError(`a sampling rate of ${rate} Hz is not supported`);
  }
}
