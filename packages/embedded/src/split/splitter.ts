import { toInteger } from "../codecs/pcm.ts";
import { quietest } from "./quietest.ts";

/** A part of a recording that is transcribed separately. Times are in samples from the beginning of the recording. */
export interface Part {
  readonly start: number;
  readonly samples: Int16Array;
  /** How much of it the previous part contains too, because there was no silence to cut at. */
  readonly overlap: number;
  /** The next part begins with the end of this one, for the same reason. */
  readonly goesOn: boolean;
}

export interface SplitterOptions {
  readonly sampleRate: number;
  /** The longest part. */
  readonly secondsMax: number;
  /** Called with each part. The samples are only valid during the call. */
  readonly onPart: (part: Part) => void;
}

export interface Splitter {
  push(samples: Float32Array): void;
  end(): void;
}

/** The overlap of two parts without a silence between them. */
const overlapSeconds = 2;
/** The shortest last part: less than a second is too little to transcribe. */
const restSeconds = 1;

/** Splits a recording while it is being decoded. It holds one part, and enough of the minimumRest to know whether another follows. */
export function makeSplitter({ sampleRate, secondsMax, onPart }: SplitterOptions): Splitter {
  const millisecond = sampleRate / 1000;
  const longest = Math.floor(secondsMax * sampleRate);
  const minimumRest = Math.min(restSeconds * sampleRate, Math.floor(longest / 4));
  const overlap = Math.min(overlapSeconds * sampleRate, Math.floor(longest / 4));
  const held = new Int16Array(longest + minimumRest);
  let length = 0;
  let start = 0;
  let shared = 0;

  const cut = (): void => {
    const from = Math.floor((longest * 2) / 3);
    const to = Math.min(longest, length - minimumRest);
    const found = quietest({ samples: held, sampleRate, from, to });
    const { silent } = found;
    // Whole milliseconds, so that times have an exact decimal form.
    const at = Math.floor(found.at / millisecond) * millisecond;
    onPart({ start, samples: held.subarray(0, at), overlap: shared, goesOn: !silent });
    shared = silent ? 0 : overlap;
    const consumed = at - shared;
    held.copyWithin(0, consumed, length);
    length -= consumed;
    start += consumed;
  };

  return {
    push(samples) {
      for (let at = 0; at < samples.length;) {
        const count = Math.min(held.length - length, samples.length - at);
        for (let index = 0; index < count; index++) held[length + index] = toInteger(samples[at + index]!);
        length += count;
        at += count;
        if (length === held.length) cut();
      }
    },
    end() {
      if (length > longest) cut();
      if (length > 0) onPart({ start, samples: held.subarray(0, length), overlap: shared, goesOn: false });
      length = 0;
    },
  };
}
