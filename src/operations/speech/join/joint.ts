import { quietMax, samplesPerMs } from "./edges.ts";

/**
 * Concatenates parts. Where the first sample of a part differs much from the last sample of the part before, there would be a click: there
 * the one is faded out and the other faded in. The last samples are held until it is known what follows them.
 */
export class SpeechJoints {
  private tail: Int16Array = none;
  private ended = false;
  /** How many samples of the current part have been faded in. */
  private faded = fadeSamples;

  push(samples: Int16Array): readonly Int16Array[] {
    if (samples.length === 0) return [];
    const last = this.joint(samples[0]!);
    const all = joined(this.tail, this.fadedIn(samples));
    const leaving = Math.max(0, all.length - fadeSamples);
    this.tail = all.slice(leaving);
    return [last, all.subarray(0, leaving)];
  }

  partEnds(): void {
    this.ended = true;
  }

  end(): Int16Array {
    const last = this.tail;
    this.tail = none;
    return last;
  }

  /** The end of the previous part, if these samples begin a new one. */
  private joint(next: number): Int16Array {
    if (!this.ended) return none;
    this.ended = false;
    this.faded = fadeSamples;
    const last = this.end();
    if (last.length === 0 || Math.abs(last.at(-1)! - next) <= jumpMax) return last;
    this.faded = 0;
    return last.map((sample, at) => Math.round(sample * gain(last.length - 1 - at)));
  }

  private fadedIn(samples: Int16Array): Int16Array {
    const from = this.faded;
    if (from >= fadeSamples) return samples;
    this.faded += samples.length;
    return samples.map((sample, at) => (from + at >= fadeSamples ? sample : Math.round(sample * gain(from + at))));
  }
}

export const fadeSamples = 5 * samplesPerMs;
/** The largest difference between two quiet samples is no jump. */
export const jumpMax = 2 * quietMax;

/** The gain of a sample at this distance from the joint. */
function gain(distance: number): number {
  return (distance + 0.5) / fadeSamples;
}

function joined(first: Int16Array, second: Int16Array): Int16Array {
  const both = new Int16Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

const none = new Int16Array(0);
