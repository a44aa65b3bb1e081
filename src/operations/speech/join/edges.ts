/** Shortens long silence at the beginning and end of one part of speech. Silence that may be at the end is held until more arrives. */
export class SpeechEdges {
  private heard = false;
  /** Part of the current silence has already been sent. */
  private leaving = false;
  private quiet: Int16Array = none;

  /** The samples that can be sent, of these and of earlier ones. */
  push(samples: Int16Array): readonly Int16Array[] {
    const first = samples.findIndex(isAudible);
    if (first < 0) return this.hold(samples);
    const past = samples.findLastIndex(isAudible) + 1;
    const before = this.heard ? [this.quiet] : [joined(this.quiet, samples.subarray(0, first)).slice(-edgeSamplesMax)];
    const from = this.heard ? 0 : first;
    this.heard = true;
    this.leaving = false;
    this.quiet = samples.slice(past);
    return [...before, samples.subarray(from, past), ...this.hold(none)];
  }

  /** The rest of the part. */
  end(): Int16Array {
    return this.leaving ? none : this.quiet.subarray(0, edgeSamplesMax);
  }

  private hold(samples: Int16Array): readonly Int16Array[] {
    const quiet = joined(this.quiet, samples);
    const over = quiet.length - (this.heard ? heldSamplesMax : edgeSamplesMax);
    if (over <= 0) {
      this.quiet = quiet;
      return [];
    }
    this.quiet = quiet.slice(over);
    // Only the end of the silence before the first sound is kept.
    if (!this.heard) return [];
    this.leaving = true;
    return [quiet.subarray(0, over)];
  }
}

/** At 24,000 samples a second. */
export const samplesPerMs = 24;
export const edgeSamplesMax = 400 * samplesPerMs;
/** Longer silence is sent as it arrives: memory is bounded, and a voice does not end with it. */
export const heldSamplesMax = 5_000 * samplesPerMs;
/** A thousandth of full scale, below which a voice is not audible. */
export const quietMax = 32;

function isAudible(sample: number): boolean {
  return sample > quietMax || sample < -quietMax;
}

function joined(first: Int16Array, second: Int16Array): Int16Array {
  if (first.length === 0) return second;
  if (second.length === 0) return first;
  const both = new Int16Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

const none = new Int16Array(0);
