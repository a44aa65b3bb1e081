import { isPlaceholder, plainBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt } from "./bytes.ts";
import { hasTextAt, uint64At } from "../containers/bytes.ts";
import type { StoredFile } from "../stored-file.ts";

/** AIFF: the bytes of its sound by how many of them a second has. */
export async function aiffLength(file: StoredFile): Promise<Length | null> {
  let bytesPerSecond = 0;
  let at = 12;
  for (let chunks = 0; chunks < chunksMax && at + 8 <= file.length; chunks++) {
    const { bytes, view } = await windowAt(file, at, 30);
    if (bytes.length < 8) return null;
    const length = view.getUint32(4);
    if (hasTextAt(bytes, 0, "COMM") && bytes.length >= 26) {
      const rate = extendedAt(view, 16);
      const bits = bytes.length >= 30 && length >= 22 ? packedBits(bytes, view.getUint16(14)) : view.getUint16(14);
      bytesPerSecond = (rate * view.getUint16(8) * (bits === imaBits ? bits : Math.ceil(bits / 8) * 8)) / 8;
    }
    if (hasTextAt(bytes, 0, "SSND")) {
      const rest = file.length - at - 16;
      const announced = length - 8;
      const isCut = !isPlaceholder(length) && announced > rest;
      const soundBytes = isPlaceholder(length) ? rest : Math.min(announced, rest);
      if (!(bytesPerSecond > 0)) return null;
      return { seconds: soundBytes / bytesPerSecond, soundBytes, bytesPerSecondMax: Infinity, isCut };
    }
    at += 8 + length + (length % 2);
  }
  return null;
}

/** The bits of a sample of the codecs that say nothing of it, or the wrong thing. */
function packedBits(bytes: Uint8Array, told: number): number {
  if (["ulaw", "ULAW", "alaw", "ALAW"].some((name) => hasTextAt(bytes, 26, name))) return 8;
  return hasTextAt(bytes, 26, "ima4") ? imaBits : told;
}

/** 34 bytes for 64 samples. */
const imaBits = 4.25;

/** CAF: by the bytes where each second has as many, else by the table of packets. */
export async function cafLength(file: StoredFile): Promise<Length | null> {
  let rate = 0;
  let bytesPerSecond = 0;
  let frames = 0;
  let soundBytes: number | null = null;
  let isCut = false;
  let at = 8;
  for (let chunks = 0; chunks < chunksMax && at + 12 <= file.length; chunks++) {
    const { bytes, view } = await windowAt(file, at, 44);
    if (bytes.length < 12) break;
    const isOpen = view.getInt32(4) === -1;
    const length = isOpen ? file.length - at - 12 : uint64At(view, 4);
    if (hasTextAt(bytes, 0, "desc") && bytes.length >= 44) {
      rate = view.getFloat64(12);
      const [packetBytes, packetFrames] = [view.getUint32(28), view.getUint32(32)];
      bytesPerSecond = packetBytes > 0 && packetFrames > 0 ? (rate * packetBytes) / packetFrames : 0;
    }
    if (hasTextAt(bytes, 0, "pakt") && bytes.length >= 28) frames = uint64At(view, 20);
    if (hasTextAt(bytes, 0, "data")) {
      soundBytes = Math.max(0, Math.min(length, file.length - at - 12) - 4);
      isCut = !isOpen && at + 12 + length > file.length;
    }
    at += 12 + length;
  }
  if (soundBytes === null || !(rate > 0)) return null;
  if (bytesPerSecond > 0) return { seconds: soundBytes / bytesPerSecond, soundBytes, bytesPerSecondMax: Infinity, isCut };
  return frames === 0 ? null : { seconds: frames / rate, soundBytes, bytesPerSecondMax: plainBytesPerSecond, isCut };
}

const chunksMax = 32;

/** A number of 80 bits: a sign and fifteen bits of exponent, then 64 of which the first is the whole part. */
function extendedAt(view: DataView, at: number): number {
  const exponent = (view.getUint16(at) & 0x7fff) - 16_383;
  return (view.getUint32(at + 2) / 2 ** 31) * 2 ** exponent;
}
