import { NeedsMore, makeFlacFrameReader } from "./flac-frame.ts";
import { makeId3Skipper } from "../mpeg/id3.ts";
import { joinBytes, joinSamples } from "../bytes.ts";
import { hasTextAt } from "../../../../../src/media/containers/bytes.ts";
import {
  flacBlockAt,
  flacBlockHeadBytes,
  flacMarkBytes,
  flacStreamInfoAt,
  streamInfoBytes,
} from "../../../../../src/media/containers/flac-metadata.ts";
import { sampleRateMax, sampleRateMin } from "../resample.ts";
import { UndecodableAudio, type DecodedAudio, type StreamDecoder } from "../codec.ts";

/** More than a frame of the longest block with eight channels of 24 bits. */
const heldBytesMax = 1 << 22;
/** Frames are found again behind damage; but what has none for so long is no FLAC. */
const strayBytesMax = 1 << 20;
/** What looked like a long frame may hide many short ones of silence, which would all come at once: about three minutes will do. */
const samplesBehindDamageMax = 1 << 22;

export function makeFlacDecoder(): StreamDecoder {
  const skipTag = makeId3Skipper();
  let held = new Uint8Array(0);
  let phase: "mark" | "metadata" | "frames" = "mark";
  let skip = 0;
  let sampleRate = 0;
  let bits = 0;
  let stray = 0;
  /** A frame is tried again only when its bytes have grown by enough, else many small pieces would cost many trials. */
  let tryAt = 0;
  const readFrame = makeFlacFrameReader();

  const readMetadata = (): boolean => {
    if (skip > 0) {
      const gone = Math.min(skip, held.length);
      held = held.slice(gone);
      skip -= gone;
      if (skip > 0) return false;
    }
    if (sampleRate !== 0 && lastSeen) {
      phase = "frames";
      return false;
    }
    const block = flacBlockAt(held, 0);
    if (block === "more") return false;
    if (block.isStreamInfo) {
      if (block.lengthBytes !== streamInfoBytes) throw new UndecodableAudio("The FLAC header is damaged.");
      const info = flacStreamInfoAt(held, flacBlockHeadBytes);
      if (info === "more") return false;
      ({ sampleRate, bits } = info);
      if (sampleRate < sampleRateMin || sampleRate > sampleRateMax) throw new UndecodableAudio("The FLAC stream's rate is not supported.");
    } else if (sampleRate === 0) {
      throw new UndecodableAudio("The FLAC header is damaged.");
    }
    lastSeen = block.isLast;
    skip = flacBlockHeadBytes + block.lengthBytes;
    return true;
  };
  let lastSeen = false;

  const readFrames = (ended: boolean): Float32Array[] => {
    const given: Float32Array[] = [];
    let at = 0;
    let isDamaged = false;
    let samples = 0;
    while (held.length - at >= (ended ? 1 : tryAt)) {
      const start = findFrame(held, at);
      stray += start - at;
      at = start;
      if (stray > strayBytesMax) throw new UndecodableAudio("The FLAC audio is damaged.");
      if (at + 2 > held.length) break;
      const frame = readFrame(held.subarray(at), bits);
      if (frame === NeedsMore) {
        if (held.length - at > heldBytesMax) throw new UndecodableAudio("The FLAC audio is damaged.");
        // Behind the last byte nothing more will come: what looks like a frame is none.
        if (!ended) {
          tryAt = Math.max(64, Math.ceil((held.length - at) * 1.25));
          break;
        }
        at++;
        stray++;
        isDamaged = true;
        continue;
      }
      tryAt = 0;
      if (frame === null) {
        at++;
        stray++;
        isDamaged = true;
        continue;
      }
      stray = 0;
      samples += isDamaged ? frame.samples.length : 0;
      if (samples > samplesBehindDamageMax) throw new UndecodableAudio("The FLAC audio is damaged.");
      given.push(frame.samples);
      at += frame.bytes;
    }
    held = held.slice(at);
    return given;
  };

  const read = (bytes: Uint8Array, ended: boolean): DecodedAudio => {
    held = new Uint8Array(joinBytes([held, bytes]));
    if (phase === "mark" && held.length >= flacMarkBytes) {
      if (!hasTextAt(held, 0, "fLaC")) throw new UndecodableAudio("This is not a FLAC stream.");
      held = held.slice(flacMarkBytes);
      phase = "metadata";
    }
    if (phase === "metadata") while (readMetadata());
    const samples = (phase as string) === "frames" ? joinSamples(readFrames(ended)) : new Float32Array(0);
    return { samples, sampleRate };
  };

  return {
    push: (bytes) => read(skipTag(bytes), false),
    end() {
      const last = read(new Uint8Array(0), true);
      if ((phase as string) !== "frames") throw new UndecodableAudio("The FLAC stream ends before its audio.");
      return last;
    },
    destroy() {
      held = new Uint8Array(0);
    },
  };
}

function findFrame(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0xff, from); at >= 0; at = bytes.indexOf(0xff, at + 1)) {
    if (at + 1 >= bytes.length || (bytes[at + 1]! & 0xfe) === 0xf8) return at;
  }
  return bytes.length;
}
