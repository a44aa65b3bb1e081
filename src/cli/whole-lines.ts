/**
 * Processes that write to one pipe do not cut into each other's lines as long as each write is small enough for the system to
 * take it in one piece.
 */
export function wholeLines(write: (bytes: Uint8Array) => number, bytesMax = pipeBytes): (bytes: Uint8Array) => number {
  return (bytes) => {
    let at = 0;
    while (at < bytes.length) {
      const piece = bytes.subarray(at, endOfPiece(bytes, at, bytesMax));
      const written = write(piece);
      at += written;
      if (written < piece.length) break;
    }
    return at;
  };
}

/** After the last line that fits, or after the first one where none does. */
function endOfPiece(bytes: Uint8Array, from: number, bytesMax: number): number {
  if (bytes.length - from <= bytesMax) return bytes.length;
  const last = bytes.lastIndexOf(newline, from + bytesMax - 1);
  if (last >= from) return last + 1;
  const next = bytes.indexOf(newline, from);
  return next === -1 ? bytes.length : next + 1;
}

const newline = "\n".charCodeAt(0);

/** What Linux keeps together; elsewhere it may be 512, which is about a line. */
const pipeBytes = 4_096;
