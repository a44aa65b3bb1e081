import { fourCcAt, viewOf } from "./bytes.ts";

/** The head of a chunk of RIFF or of AIFF, which differ in the order of bytes only. */
export interface Chunk {
  readonly name: string;
  /** Of the content behind the head. */
  readonly lengthBytes: number;
  /** From here to the next chunk. Content of an odd length is padded. */
  readonly stepBytes: number;
}

export const chunkHeadBytes = 8;

/** The chunk at an offset; null where the bytes end before its head does. */
export function chunkAt(bytes: Uint8Array, at: number, littleEndian: boolean): Chunk | null {
  if (at + chunkHeadBytes > bytes.length) return null;
  const lengthBytes = viewOf(bytes).getUint32(at + 4, littleEndian);
  return { name: fourCcAt(bytes, at), lengthBytes, stepBytes: chunkHeadBytes + lengthBytes + (lengthBytes % 2) };
}

/** Lengths that stand for one that was not known when they were written. Writers of streams have several. */
export function isPlaceholder(lengthBytes: number): boolean {
  return lengthBytes === 0 || lengthBytes >= 0x7fff_0000;
}
