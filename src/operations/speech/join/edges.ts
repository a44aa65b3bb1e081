/**
 * One part of a spoken text without overlong silence at its edges. The silence within it is left as it is, so silence
 * that may be the last is held until more is heard.
 */
export class SpeechEdges {
  private heard = false;
  /** Something of the present silence has already left. */
  private leaving = false;
  private quiet: Int16Array = none;

  /** What can leave of these samples and of those before them. */
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

  /** The part is over: what is left of it. */
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
    // Of the silence before the first sound only the end is kept.
    if (!this.heard) return [];
    this.leaving = true;
    return [quiet.subarray(0, over)];
  }
}

/** Of 24,000 a second. */
export const samplesPerMs = 24;
export const edgeSamplesMax = 400 * samplesPerMs;
/** Silence that goes on for longer leaves as it comes: it is bounded in memory, and not what a voice ends with. */
export const heldSamplesMax = 5_000 * samplesPerMs;
/** A thousandth of full scale, below which nothing of a voice is heard. */
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
