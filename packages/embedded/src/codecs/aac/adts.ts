import { joinBytes } from "../bytes.ts";
import { UndecodableAudio } from "../codec.ts";
import { aacSampleRates, adtsHeaderAt, adtsHeaderBytes, hasAdtsMark } from "../../../../../src/media/containers/adts.ts";

/** What each frame of a bare AAC stream says of itself. */
export interface AdtsConfig {
  readonly objectType: number;
  readonly sampleRate: number;
  readonly channels: number;
}

/** Bytes between frames are passed over; but what has no frame for so long is no AAC. */
const strayBytesMax = 1 << 16;

export function adtsHeader({ objectType, sampleRate, channels }: AdtsConfig, frameBytes: number): Uint8Array {
  const rate = aacSampleRates.indexOf(sampleRate);
  const length = frameBytes + adtsHeaderBytes;
  if (objectType < 1 || objectType > 4 || rate < 0 || length > 0x1fff) throw new UndecodableAudio("This kind of AAC is not supported.");
  const channelCode = channels === 8 ? 7 : channels;
  return Uint8Array.of(
    0xff,
    0xf1,
    ((objectType - 1) << 6) | (rate << 2) | (channelCode >> 2),
    ((channelCode & 3) << 6) | (length >> 11),
    (length >> 3) & 0xff,
    ((length & 7) << 5) | 0x1f,
    0xfc,
  );
}

/** Cuts a stream of bytes into frames, each with its header. */
export interface AdtsReader {
  push(bytes: Uint8Array): readonly Uint8Array[];
  /** The frame that waited for the one behind it. */
  end(): readonly Uint8Array[];
}

export function makeAdtsReader(): AdtsReader {
  let held = new Uint8Array(0);
  let stray = 0;

  const read = (ended: boolean): Uint8Array[] => {
    const frames: Uint8Array[] = [];
    let at = 0;
    while (at + adtsHeaderBytes <= held.length) {
      const header = adtsHeaderAt(held, at);
      const end = typeof header === "string" ? null : at + header.lengthBytes;
      // A frame is one if another begins behind it: the mark alone occurs in any noise.
      if (end !== null && end + 2 > held.length && !ended) break;
      if (end !== null && (end === held.length || hasAdtsMark(held, end))) {
        frames.push(held.slice(at, end));
        at = end;
        stray = 0;
        continue;
      }
      at++;
      if (++stray > strayBytesMax) throw new UndecodableAudio("This is not an AAC stream.");
    }
    held = held.slice(at);
    return frames;
  };

  return {
    push(bytes) {
      held = new Uint8Array(joinBytes([held, bytes]));
      return read(false);
    },
    end: () => read(true),
  };
}
