/** Samples that a codec has to work for: rising tones, as loud and soft as speech, with pauses. The same on every run. */
export function speechLike(sampleRate: number, seconds: number): Float32Array {
  const samples = new Float32Array(Math.round(sampleRate * seconds));
  for (let index = 0; index < samples.length; index++) {
    const time = index / sampleRate;
    const loudness = 0.5 + 0.5 * Math.sin(2 * Math.PI * 2.3 * time);
    const tone = Math.sin(2 * Math.PI * (180 * time + 60 * time * time));
    const overtone = Math.sin(2 * Math.PI * (700 * time + 150 * time * time));
    samples[index] = loudness * (0.35 * tone + 0.15 * overtone);
  }
  return samples;
}

/** How like `actual` is to `expected` where they fit best, `actual` being late by up to `lagMax` samples, or early by a few. 1 is the same. */
export function likeness(
  expected: Float32Array,
  actual: Float32Array,
  lagMax: number,
): { readonly correlation: number; readonly lag: number } {
  const margin = Math.min(lagMax, Math.floor(expected.length / 4));
  const correlationAt = (lag: number, step: number): number => {
    let product = 0;
    let expectedPower = 0;
    let actualPower = 0;
    for (let index = margin + 64; index < expected.length - margin; index += step) {
      const one = expected[index]!;
      const other = actual[index + lag] ?? 0;
      product += one * other;
      expectedPower += one * one;
      actualPower += other * other;
    }
    return product / Math.sqrt(expectedPower * actualPower || 1);
  };
  const bestOf = (from: number, to: number, step: number): { readonly correlation: number; readonly lag: number } => {
    let best = { correlation: -1, lag: 0 };
    for (let lag = from; lag <= to; lag++) {
      const correlation = correlationAt(lag, step);
      if (correlation > best.correlation) best = { correlation, lag };
    }
    return best;
  };
  // Few samples are enough to find the lag. How like they are is measured with many, and never comes out too high by a wrong lag.
  const { lag } = bestOf(-64, lagMax, 101);
  return bestOf(Math.max(-64, lag - 8), Math.min(lagMax, lag + 8), 5);
}

/** The root of the mean square. */
export function loudness(samples: Float32Array): number {
  return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
}

export function joinedSamples(pieces: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(pieces.reduce((total, piece) => total + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}
