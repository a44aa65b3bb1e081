import { longAt, says, windowAt } from "./audio-length-bytes.ts";
import type { StoredFile } from "./stored-file.ts";

/** The samples of a WAV by how many bytes of them are played in a second. */
export async function wavSeconds(file: StoredFile): Promise<number | null> {
  const littleEndian = !says(file.head, 0, "RIFX");
  let bytesPerSecond = 0;
  let longDataBytes = 0;
  let at = 12;
  for (let chunks = 0; chunks < chunksMax && at + 8 <= file.length; chunks++) {
    const { bytes, view } = await windowAt(file, at, chunkBytesMin);
    if (bytes.length < 8) return null;
    const length = view.getUint32(4, littleEndian);
    if (says(bytes, 0, "data")) {
      const announced = length === longData && longDataBytes > 0 ? longDataBytes : length;
      const rest = file.length - at - 8;
      // Encoders that stream do not know the length when they write it.
      return bytesPerSecond === 0 ? null : (announced === 0 ? rest : Math.min(announced, rest)) / bytesPerSecond;
    }
    if (says(bytes, 0, "ds64") && bytes.length >= 24) longDataBytes = longAt(view, 16, littleEndian);
    if (says(bytes, 0, "fmt ")) {
      if (bytes.length < 24) return null;
      // Where samples stand one after another, no decoder asks for the rate of bytes, and it is sometimes wrong.
      const isPlain = plainCodes.includes(view.getUint16(8, littleEndian));
      bytesPerSecond = isPlain ? view.getUint32(12, littleEndian) * view.getUint16(20, littleEndian) : view.getUint32(16, littleEndian);
    }
    at += 8 + length + (length % 2);
  }
  return null;
}

const chunksMax = 32;
const chunkBytesMin = 24;
const longData = 0xffff_ffff;
/** Integers, floats, A-law, µ-law, and one of these in a longer description. */
const plainCodes: readonly number[] = [1, 3, 6, 7, 0xfffe];
