/** Shortens long silence at the beginning and end of one part of speech. Silence that may be at the end is held until more arrives. */
export class SpeechEdges {
  private hasSound = false;
  /** Part of the current silence has already been sent. */
  private isSending = false;
  private silence: Int16Array = none;

  /** The samples that can be sent, of these and of earlier ones. */
  push(samples: Int16Array): readonly Int16Array[] {
    const first = samples.findIndex(isAudible);
    if (first < 0) return this.hold(samples);
    const past = samples.findLastIndex(isAudible) + 1;
    const before = this.hasSound ? [this.silence] : [joined(this.silence, samples.subarray(0, first)).slice(-edgeSamplesMax)];
    const from = this.hasSound ? 0 : first;
    this.hasSound = true;
    this.isSending = false;
    this.silence = samples.slice(past);
    return [...before, samples.subarray(from, past), ...this.hold(none)];
  }

  /** The rest of the part. */
  end(): Int16Array {
    return this.isSending ? none : this.silence.subarray(0, edgeSamplesMax);
  }

  private hold(samples: Int16Array): readonly Int16Array[] {
    const silence = joined(this.silence, samples);
    const over = silence.length - (this.hasSound ? heldSamplesMax : edgeSamplesMax);
    if (over <= 0) {
      this.silence = silence;
      return [];
    }
    this.silence = silence.slice(over);
    // Only the end of the silence before the first sound is kept.
    if (!this.hasSound) return [];
    this.isSending = true;
    return [silence.subarray(0, over)];
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
