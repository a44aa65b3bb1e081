import { plainBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt } from "./bytes.ts";
import { aiffFormatIn, type AiffFormat } from "../containers/aiff.ts";
import { cafChunkAt, cafChunkHeadBytes, cafDescriptionIn, cafEditCountBytes, cafHeadBytes, cafPacketTableIn } from "../containers/caf.ts";
import { chunkAt, chunkHeadBytes, isPlaceholder } from "../containers/chunks.ts";
import type { StoredFile } from "../stored-file.ts";

/** AIFF: the bytes of its sound by how many of them a second has. */
export async function aiffLength(file: StoredFile): Promise<Length | null> {
  let bytesPerSecond = 0;
  let at = formHeadBytes;
  for (let chunks = 0; chunks < chunksMax; chunks++) {
    const { bytes } = await windowAt(file, at, chunkHeadBytes + formatBytes);
    const chunk = chunkAt(bytes, 0, false);
    if (chunk === null) return null;
    const { name, lengthBytes, stepBytes } = chunk;
    const format = name === "COMM" ? aiffFormatIn(bytes.subarray(chunkHeadBytes, chunkHeadBytes + lengthBytes)) : null;
    if (format !== null) bytesPerSecond = (format.sampleRate * format.channels * packedBits(format)) / 8;
    if (name === "SSND") {
      const rest = file.length - at - chunkHeadBytes - soundHeadBytes;
      const announced = lengthBytes - soundHeadBytes;
      const isCut = !isPlaceholder(lengthBytes) && announced > rest;
      const soundBytes = isPlaceholder(lengthBytes) ? rest : Math.min(announced, rest);
      if (!(bytesPerSecond > 0)) return null;
      return { seconds: soundBytes / bytesPerSecond, soundBytes, bytesPerSecondMax: Infinity, isCut };
    }
    at += stepBytes;
  }
  return null;
}

/** The name of the form and what it holds. */
const formHeadBytes = 12;
/** Of a format with the name of its codec. */
const formatBytes = 22;
/** Sound has an offset and a block size in front, which are 0 as a rule. */
const soundHeadBytes = 8;

/** The bits that a sample takes, also of the codecs that say nothing of it, or the wrong thing. */
function packedBits({ bits, packing }: AiffFormat): number {
  if (packing !== null && /^[au]law$/i.test(packing)) return 8;
  return packing === "ima4" ? imaBits : Math.ceil(bits / 8) * 8;
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
  let at = cafHeadBytes;
  for (let chunks = 0; chunks < chunksMax; chunks++) {
    const { bytes } = await windowAt(file, at, cafChunkHeadBytes + descriptionBytes);
    const chunk = cafChunkAt(bytes, 0);
    if (chunk === null) break;
    const { name } = chunk;
    const from = at + cafChunkHeadBytes;
    const length = chunk.lengthBytes ?? file.length - from;
    const content = bytes.subarray(cafChunkHeadBytes);
    const description = name === "desc" ? cafDescriptionIn(content) : null;
    if (description !== null) {
      const { packetBytes, packetFrames } = description;
      rate = description.sampleRate;
      bytesPerSecond = packetBytes > 0 && packetFrames > 0 ? (rate * packetBytes) / packetFrames : 0;
    }
    if (name === "pakt") frames = cafPacketTableIn(content)?.playedFrames ?? frames;
    if (name === "data") {
      soundBytes = Math.max(0, Math.min(length, file.length - from) - cafEditCountBytes);
      isCut = chunk.lengthBytes !== null && from + length > file.length;
    }
    at = from + length;
  }
  if (soundBytes === null || !(rate > 0)) return null;
  if (bytesPerSecond > 0) return { seconds: soundBytes / bytesPerSecond, soundBytes, bytesPerSecondMax: Infinity, isCut };
  return frames === 0 ? null : { seconds: frames / rate, soundBytes, bytesPerSecondMax: plainBytesPerSecond, isCut };
}

const descriptionBytes = 32;

const chunksMax = 32;
