/**
 * How records lie in a journal: the length of the text, its checksum, the text. A frame that was torn by a death, or damaged by
 * a disk, does not pass for one: zeroes are no frame, because no text is empty.
 */
export const frameHeadBytes = 8;
/** No record comes near it, so that a damaged length is noticed. */
export const textBytesMax = 1 << 20;

/** Puts a text where there is room for three times its characters and a head. Returns where the frame ends. */
export function putFrame(into: Buffer, at: number, text: string): number {
  const from = at + frameHeadBytes;
  const to = from + into.write(text, from);
  into.writeUInt32LE(to - from, at);
  // Of the same bytes: half of a character becomes the same replacement here and there.
  into.writeUInt32LE(Bun.hash.crc32(text), at + 4);
  return to;
}

export function roomFor(text: string): number {
  return frameHeadBytes + text.length * 3;
}

/** `short`: the bytes end within it, so more may come. */
export type FrameRead = { readonly kind: "frame"; readonly text: string; readonly to: number } | { readonly kind: "short" | "bad" };

/** The frame that begins here: its text, and where it ends. */
export function frameAt(bytes: Buffer, at: number): FrameRead {
  if (bytes.length - at < frameHeadBytes) return short;
  const length = bytes.readUInt32LE(at);
  if (length === 0 || length > textBytesMax) return bad;
  const from = at + frameHeadBytes;
  const to = from + length;
  if (to > bytes.length) return short;
  // Bytes that are no text do not become one with the same checksum.
  const text = bytes.toString("utf8", from, to);
  return Bun.hash.crc32(text) === bytes.readUInt32LE(at + 4) ? { kind: "frame", text, to } : bad;
}

/** Where the next whole frame begins, at or after a place; null where there is none. */
export function nextFrame(bytes: Buffer, after: number): number | null {
  for (let at = after; at + frameHeadBytes < bytes.length; at += 1) {
    // Nearly every wrong place is told by its first byte, and costs no checksum.
    if (bytes[at + frameHeadBytes] === opening && frameAt(bytes, at).kind === "frame") return at;
  }
  return null;
}

const opening = "[".charCodeAt(0);
const short: FrameRead = { kind: "short" };
const bad: FrameRead = { kind: "bad" };
