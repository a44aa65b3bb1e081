import { fourCcAt, uint64At, viewOf } from "./bytes.ts";

/** The head of a chunk of a file in Apple's Core Audio Format. */
export interface CafChunk {
  readonly name: string;
  /** Of the content behind the head; null where it goes on to the end of the file. */
  readonly lengthBytes: number | null;
}

/** The name and the version of the format: the first chunk stands behind them. */
export const cafHeadBytes = 8;
export const cafChunkHeadBytes = 12;
/** The sound has the number of its edits in front. */
export const cafEditCountBytes = 4;

/** The chunk at an offset; null where the bytes end before its head does. */
export function cafChunkAt(bytes: Uint8Array, at: number): CafChunk | null {
  if (at + cafChunkHeadBytes > bytes.length) return null;
  const view = viewOf(bytes);
  return { name: fourCcAt(bytes, at), lengthBytes: view.getInt32(at + 4) === -1 ? null : uint64At(view, at + 4) };
}

/** The content of the `desc` chunk. */
export interface CafDescription {
  readonly sampleRate: number;
  readonly codec: string;
  readonly flags: number;
  /** Both 0 where packets differ in it. */
  readonly packetBytes: number;
  readonly packetFrames: number;
  readonly channels: number;
}

/** Null where it is cut. */
export function cafDescriptionIn(content: Uint8Array): CafDescription | null {
  if (content.length < 32) return null;
  const view = viewOf(content);
  return {
    sampleRate: view.getFloat64(0),
    codec: fourCcAt(content, 8),
    flags: view.getUint32(12),
    packetBytes: view.getUint32(16),
    packetFrames: view.getUint32(20),
    channels: view.getUint32(24),
  };
}

/** What the `pakt` chunk says in front of the table of packets. */
export interface CafPacketTable {
  /** How many frames are to be played, behind those at the beginning that are the codec's own. */
  readonly playedFrames: number;
  readonly leadFrames: number;
}

export const cafPacketTableHeadBytes = 24;

/** Null where it is cut. */
export function cafPacketTableIn(content: Uint8Array): CafPacketTable | null {
  if (content.length < cafPacketTableHeadBytes) return null;
  const view = viewOf(content);
  return { playedFrames: uint64At(view, 8), leadFrames: Math.max(0, view.getInt32(16)) };
}
