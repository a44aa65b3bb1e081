import { isPlaceholder, plainBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt } from "./bytes.ts";
import { hasTextAt, uint64At } from "../containers/bytes.ts";
import type { StoredFile } from "../stored-file.ts";

/** The samples of a WAV by how many bytes of them are played in a second. */
export async function wavLength(file: StoredFile): Promise<Length | null> {
  const littleEndian = !hasTextAt(file.head, 0, "RIFX");
  let bytesPerSecond = 0;
  let isCounted = false;
  let longDataBytes = 0;
  let at = 12;
  for (let chunks = 0; chunks < chunksMax && at + 8 <= file.length; chunks++) {
    const { bytes, view } = await windowAt(file, at, chunkBytesMin);
    if (bytes.length < 8) return null;
    const length = view.getUint32(4, littleEndian);
    if (hasTextAt(bytes, 0, "data")) {
      const announced = length === longData && longDataBytes > 0 ? longDataBytes : length;
      const rest = file.length - at - 8;
      // Encoders that stream do not know the length when they write it.
      const isKnown = (longDataBytes > 0 && announced === longDataBytes) || !isPlaceholder(announced);
      const soundBytes = isKnown ? Math.min(announced, rest) : rest;
      if (bytesPerSecond === 0) return null;
      return {
        seconds: soundBytes / bytesPerSecond,
        soundBytes,
        bytesPerSecondMax: isCounted ? Infinity : plainBytesPerSecond,
        isCut: isKnown && announced > rest,
      };
    }
    if (hasTextAt(bytes, 0, "ds64") && bytes.length >= 24) longDataBytes = uint64At(view, 16, littleEndian);
    if (hasTextAt(bytes, 0, "fmt ")) {
      if (bytes.length < 24) return null;
      const told = bytesPerSecondIn(view, littleEndian);
      bytesPerSecond = told ?? view.getUint32(16, littleEndian);
      isCounted = told !== null;
    }
    at += 8 + length + (length % 2);
  }
  return null;
}

/** No decoder asks for the rate of bytes where it knows how the samples are written, and it is sometimes wrong. Null where they are not. */
function bytesPerSecondIn(view: DataView, littleEndian: boolean): number | null {
  const code = view.getUint16(8, littleEndian);
  const channels = view.getUint16(10, littleEndian);
  const rate = view.getUint32(12, littleEndian);
  const blockBytes = view.getUint16(20, littleEndian);
  if (plainCodes.includes(code)) return rate * blockBytes;
  const headBytes = (code === imaCode ? 4 : 7) * channels;
  if ((code !== imaCode && code !== microsoftCode) || channels === 0 || blockBytes <= headBytes) return null;
  const frames = ((blockBytes - headBytes) * 2) / channels + (code === imaCode ? 1 : 2);
  return (rate * blockBytes) / frames;
}

const chunksMax = 32;
const chunkBytesMin = 24;
const longData = 0xffff_ffff;
/** Integers, floats, A-law, µ-law, and one of these in a longer description. */
const plainCodes: readonly number[] = [1, 3, 6, 7, 0xfffe];
/** The two ADPCM codecs, which have four bits for a sample, in blocks with a head. */
const microsoftCode = 2;
const imaCode = 0x11;
