import { plainBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt } from "./bytes.ts";
import { hasTextAt, uint64At } from "../containers/bytes.ts";
import { chunkAt, chunkHeadBytes, isPlaceholder } from "../containers/chunks.ts";
import { extensibleCode, riffHeadBytes, waveFormatIn, type WaveFormat } from "../containers/wav.ts";
import type { StoredFile } from "../stored-file.ts";

/** The samples of a WAV by how many bytes of them are played in a second. */
export async function wavLength(file: StoredFile): Promise<Length | null> {
  const littleEndian = !hasTextAt(file.head, 0, "RIFX");
  let bytesPerSecond = 0;
  let isCounted = false;
  let longDataBytes = 0;
  let at = riffHeadBytes;
  for (let chunks = 0; chunks < chunksMax; chunks++) {
    const { bytes, view } = await windowAt(file, at, chunkBytesMin);
    const chunk = chunkAt(bytes, 0, littleEndian);
    if (chunk === null) return null;
    const { name, lengthBytes, stepBytes } = chunk;
    if (name === "data") {
      const announced = lengthBytes === longData && longDataBytes > 0 ? longDataBytes : lengthBytes;
      const rest = file.length - at - chunkHeadBytes;
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
    if (name === "ds64" && bytes.length >= 24) longDataBytes = uint64At(view, 16, littleEndian);
    if (name === "fmt ") {
      const format = waveFormatIn(bytes.subarray(chunkHeadBytes), littleEndian);
      if (format === null) return null;
      const computed = bytesPerSecondOf(format);
      bytesPerSecond = computed ?? format.bytesPerSecond;
      isCounted = computed !== null;
    }
    at += stepBytes;
  }
  return null;
}

/** No decoder asks for the rate of bytes where it knows how the samples are written, and it is sometimes wrong. Null where they are not. */
function bytesPerSecondOf({ code, channels, sampleRate, blockBytes }: WaveFormat): number | null {
  if (plainCodes.includes(code)) return sampleRate * blockBytes;
  const headBytes = (code === imaCode ? 4 : 7) * channels;
  if ((code !== imaCode && code !== microsoftCode) || channels === 0 || blockBytes <= headBytes) return null;
  const frames = ((blockBytes - headBytes) * 2) / channels + (code === imaCode ? 1 : 2);
  return (sampleRate * blockBytes) / frames;
}

const chunksMax = 32;
const chunkBytesMin = 24;
const longData = 0xffff_ffff;
/** Integers, floats, A-law, µ-law, and one of these in a longer description. */
const plainCodes: readonly number[] = [1, 3, 6, 7, extensibleCode];
/** The two ADPCM codecs, which have four bits for a sample, in blocks with a head. */
const microsoftCode = 2;
const imaCode = 0x11;
