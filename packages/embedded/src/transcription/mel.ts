import { fourier } from "./fourier.ts";

export const sampleRate = 16_000;
export const hopSamples = 160;
export const melBins = 80;
/** A window of Whisper: 30 s in frames of 10 ms. */
export const windowFrames = 3000;
export const framesPerSecond = sampleRate / hopSamples;

const spanSamples = 400;
const spectrumBins = spanSamples / 2 + 1;

export interface MelWindow {
  /** Bins by frames, the input format of the encoder. */
  readonly features: Float32Array;
  /** The maximum of the log10 power of this window and `loudestBefore`, for the next window. */
  readonly loudest: number;
}

export interface Mel {
  window(samples: Float32Array, firstFrame: number, loudestBefore: number): MelWindow;
}

/**
 * The log-mel spectrogram of Whisper: the log power of 80 mel bands every 10 ms, limited to 80 dB below the maximum. Whisper uses the
 * maximum of the whole recording; we use the maximum up to this window, so that an hour of audio need not be converted before the first
 * word. Up to 30 s both are the same. A window beyond the end is padded with silence.
 */
export function mel(): Mel {
  const transform = fourier(spanSamples);
  const hann = Float64Array.from({ length: spanSamples }, (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / spanSamples));
  const bands = melBands();
  const powers = [new Float64Array(spectrumBins), new Float64Array(spectrumBins)] as const;

  function window(samples: Float32Array, firstFrame: number, loudestBefore: number): MelWindow {
    const features = new Float32Array(melBins * windowFrames);
    let loudest = loudestBefore;
    // Two frames share one transform, as its real and imaginary parts.
    for (let frame = 0; frame < windowFrames; frame += 2) {
      cut(samples, (firstFrame + frame) * hopSamples - spanSamples / 2, hann, transform.real);
      cut(samples, (firstFrame + frame + 1) * hopSamples - spanSamples / 2, hann, transform.imaginary);
      transform.transform();
      part(transform.real, transform.imaginary, powers);
      loudest = Math.max(loudest, pour(powers[0], features, frame), pour(powers[1], features, frame + 1));
    }
    for (let at = 0; at < features.length; at++) features[at] = (Math.max(features[at]!, loudest - 8) + 4) / 4;
    return { features, loudest };
  }

  function pour(power: Float64Array, features: Float32Array, frame: number): number {
    let loudest = -Infinity;
    for (let bin = 0; bin < melBins; bin++) {
      const band = bands[bin]!;
      let energy = 0;
      for (let at = 0; at < band.weights.length; at++) energy += band.weights[at]! * power[band.first + at]!;
      // The lower bound is Whisper's. The upper one limits the effect of a sample that is not a number.
      const level = Math.log10(energy > 1e-10 ? Math.min(energy, 1e10) : 1e-10);
      features[bin * windowFrames + frame] = level;
      loudest = Math.max(loudest, level);
    }
    return loudest;
  }

  return { window };
}

/** Like Whisper, mirrors the recording before its start and pads it with silence after its end. */
function cut(samples: Float32Array, start: number, hann: Float64Array, into: Float64Array): void {
  for (let at = 0; at < spanSamples; at++) into[at] = hann[at]! * (samples[Math.abs(start + at)] ?? 0);
}

/** The power spectra of two real signals from the transform of their complex sum. */
function part(real: Float64Array, imaginary: Float64Array, powers: readonly [Float64Array, Float64Array]): void {
  for (let bin = 0; bin < spectrumBins; bin++) {
    const mirror = (spanSamples - bin) % spanSamples;
    const evenReal = real[bin]! + real[mirror]!;
    const oddImaginary = imaginary[bin]! - imaginary[mirror]!;
    const evenImaginary = imaginary[bin]! + imaginary[mirror]!;
    const oddReal = real[mirror]! - real[bin]!;
    powers[0][bin] = (evenReal * evenReal + oddImaginary * oddImaginary) / 4;
    powers[1][bin] = (evenImaginary * evenImaginary + oddReal * oddReal) / 4;
  }
}

export interface MelBand {
  readonly first: number;
  readonly weights: Float64Array;
}

/** Triangular filters, evenly spaced on Slaney's mel scale from 0 to 8000 Hz, with equal areas. */
export function melBands(): readonly MelBand[] {
  const top = hertzToMel(sampleRate / 2);
  const edges = Array.from({ length: melBins + 2 }, (_, at) => melToHertz((top * at) / (melBins + 1)));
  return Array.from({ length: melBins }, (_, bin) => {
    const [low, middle, high] = [edges[bin]!, edges[bin + 1]!, edges[bin + 2]!];
    const weights = Array.from({ length: spectrumBins }, (_unused, at) => {
      const hertz = (at * sampleRate) / spanSamples;
      const slope = Math.min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      return (Math.max(0, slope) * 2) / (high - low);
    });
    const first = weights.findIndex((weight) => weight > 0);
    const last = weights.findLastIndex((weight) => weight > 0);
    return { first, weights: Float64Array.from(weights.slice(first, last + 1)) };
  });
}

/** Slaney's scale is linear up to 1000 Hz (15 mels of 66.7 Hz each), then logarithmic with a factor of 6.4 per 27 mels. */
function hertzToMel(hertz: number): number {
  return hertz < 1000 ? (hertz * 3) / 200 : 15 + (27 * Math.log(hertz / 1000)) / Math.log(6.4);
}

function melToHertz(mels: number): number {
  return mels < 15 ? (mels * 200) / 3 : 1000 * Math.exp(((mels - 15) * Math.log(6.4)) / 27);
}

/** About -70 dB of full scale: far below speech, and above the noise of a good recording. */
const audibleLevel = 3e-4;

/** The first audible frame of 10 ms from `frame` on; null if there is none. */
export function nextAudible(samples: Float32Array, frame: number): number | null {
  for (let at = frame; at * hopSamples < samples.length; at++) {
    const end = Math.min(samples.length, (at + 1) * hopSamples);
    let energy = 0;
    for (let sample = at * hopSamples; sample < end; sample++) energy += samples[sample]! * samples[sample]!;
    if (energy > audibleLevel * audibleLevel * (end - at * hopSamples)) return at;
  }
  return null;
}
