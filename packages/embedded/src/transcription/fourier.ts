/**
 * An in-place Fourier transform of a fixed length, by Stockham's algorithm: it needs no bit reversal, and lengths such as Whisper's 400
 * need no padding to a power of two.
 */
export interface Fourier {
  readonly length: number;
  readonly real: Float64Array;
  readonly imaginary: Float64Array;
  transform(): void;
}

export function fourier(length: number): Fourier {
  const cosines = Float64Array.from({ length }, (_, at) => Math.cos((2 * Math.PI * at) / length));
  const sines = Float64Array.from({ length }, (_, at) => -Math.sin((2 * Math.PI * at) / length));
  const real = new Float64Array(length);
  const imaginary = new Float64Array(length);
  const spareReal = new Float64Array(length);
  const spareImaginary = new Float64Array(length);
  const radices = factors(length);

  function transform(): void {
    let [fromReal, fromImaginary, toReal, toImaginary] = [real, imaginary, spareReal, spareImaginary];
    let stride = 1;
    for (const radix of radices) {
      stage(fromReal, fromImaginary, toReal, toImaginary, radix, stride);
      [fromReal, fromImaginary, toReal, toImaginary] = [toReal, toImaginary, fromReal, fromImaginary];
      stride *= radix;
    }
    if (fromReal !== real) {
      real.set(fromReal);
      imaginary.set(fromImaginary);
    }
  }

  function stage(
    fromReal: Float64Array,
    fromImaginary: Float64Array,
    toReal: Float64Array,
    toImaginary: Float64Array,
    radix: number,
    stride: number,
  ): void {
    const groups = length / (stride * radix);
    const turn = length / radix;
    for (let group = 0; group < groups; group++) {
      for (let output = 0; output < radix; output++) {
        const twiddle = (group * output * stride) % length;
        const twiddleReal = cosines[twiddle]!;
        const twiddleImaginary = sines[twiddle]!;
        const to = stride * (radix * group + output);
        for (let lane = 0; lane < stride; lane++) {
          let sumReal = 0;
          let sumImaginary = 0;
          for (let input = 0; input < radix; input++) {
            const root = ((output * input) % radix) * turn;
            const from = lane + stride * (group + groups * input);
            sumReal += fromReal[from]! * cosines[root]! - fromImaginary[from]! * sines[root]!;
            sumImaginary += fromReal[from]! * sines[root]! + fromImaginary[from]! * cosines[root]!;
          }
          toReal[to + lane] = sumReal * twiddleReal - sumImaginary * twiddleImaginary;
          toImaginary[to + lane] = sumReal * twiddleImaginary + sumImaginary * twiddleReal;
        }
      }
    }
  }

  return { length, real, imaginary, transform };
}

function factors(length: number): readonly number[] {
  const found: number[] = [];
  let rest = length;
  for (let candidate = 2; rest > 1; candidate++) {
    for (; rest % candidate === 0; rest /= candidate) found.push(candidate);
  }
  return found;
}
