import { toInteger } from "../codecs/pcm.ts";
import { quietest } from "./quietest.ts";

/** A stretch of a recording that is transcribed by itself. Times are in samples from the recording's beginning. */
export interface Part {
  readonly start: number;
  readonly samples: Int16Array;
  /** How much of it was in the part before too, because no silence was found to cut at. */
  readonly overlap: number;
  /** Whether the part after it will begin with its end, for the same reason. */
  readonly goesOn: boolean;
}

export interface CutterOptions {
  readonly sampleRate: number;
  /** No part is longer. */
  readonly secondsMax: number;
  /** Is given each part before the next is gathered. The samples are good until it returns. */
  readonly give: (part: Part) => void;
}

export interface Cutter {
  push(samples: Float32Array): void;
  end(): void;
}

/** What two parts share where there is no silence between them. */
const overlapSeconds = 2;
/** The last part is not shorter: a fraction of a second is too little to hear anything in. */
const restSeconds = 1;

/** Cuts a recording as it comes. It holds one part, and the little that shows whether another follows. */
export function makeCutter({ sampleRate, secondsMax, give }: CutterOptions): Cutter {
  const millisecond = sampleRate / 1000;
  const longest = Math.floor(secondsMax * sampleRate);
  const rest = Math.min(restSeconds * sampleRate, Math.floor(longest / 4));
  const overlap = Math.min(overlapSeconds * sampleRate, Math.floor(longest / 4));
  const held = new Int16Array(longest + rest);
  let length = 0;
  let start = 0;
  let shared = 0;

  const cut = (): void => {
    const from = Math.floor((longest * 2) / 3);
    const to = Math.min(longest, length - rest);
    const found = quietest({ samples: held, sampleRate, from, to });
    const { silent } = found;
    // Whole milliseconds, so that times are written exactly.
    const at = Math.floor(found.at / millisecond) * millisecond;
    give({ start, samples: held.subarray(0, at), overlap: shared, goesOn: !silent });
    shared = silent ? 0 : overlap;
    const kept = at - shared;
    held.copyWithin(0, kept, length);
    length -= kept;
    start += kept;
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
      if (length > 0) give({ start, samples: held.subarray(0, length), overlap: shared, goesOn: false });
      length = 0;
    },
  };
}
