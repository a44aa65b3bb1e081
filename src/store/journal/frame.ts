/**
 * The format of a record: length of the text, CRC-32, text. The checksum detects records that were torn by a crash or damaged on
 * disk. A run of zeroes is not a valid frame, because the text is never empty.
 */
export const frameHeadBytes = 8;
/** Longer than any record, so that a damaged length is detected. */
export const textBytesMax = 1 << 20;

/** Writes a frame, and returns its end. The buffer must have room for three bytes per character plus the header. */
export function putFrame(into: Buffer, at: number, text: string): number {
  const from = at + frameHeadBytes;
  const to = from + into.write(text, from);
  into.writeUInt32LE(to - from, at);
  // The checksum is of the same bytes as were written: a lone surrogate becomes the same replacement character in both.
  into.writeUInt32LE(Bun.hash.crc32(text), at + 4);
  return to;
}

export function roomFor(text: string): number {
  return frameHeadBytes + text.length * 3;
}

/** `short`: the buffer ends inside the frame, so that reading more may complete it. */
export type FrameRead = { readonly kind: "frame"; readonly text: string; readonly to: number } | { readonly kind: "short" | "bad" };

/** Reads the frame at this offset. */
export function frameAt(bytes: Buffer, at: number): FrameRead {
  if (bytes.length - at < frameHeadBytes) return short;
  const length = bytes.readUInt32LE(at);
  if (length === 0 || length > textBytesMax) return bad;
  const from = at + frameHeadBytes;
  const to = from + length;
  if (to > bytes.length) return short;
  // Invalid UTF-8 is replaced during decoding, so that its checksum no longer matches.
  const text = bytes.toString("utf8", from, to);
  return Bun.hash.crc32(text) === bytes.readUInt32LE(at + 4) ? { kind: "frame", text, to } : bad;
}

/** The offset of the next complete frame at or after `after`; null if there is none. */
export function nextFrame(bytes: Buffer, after: number): number | null {
  for (let at = after; at + frameHeadBytes < bytes.length; at += 1) {
    // Each text begins with "[": checking that first saves nearly all checksums.
    if (bytes[at + frameHeadBytes] === opening && frameAt(bytes, at).kind === "frame") return at;
  }
  return null;
}

const opening = "[".charCodeAt(0);
const short: FrameRead = { kind: "short" };
const bad: FrameRead = { kind: "bad" };
