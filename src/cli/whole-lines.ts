/** Splits output into writes that the system makes atomic (pipe(7), PIPE_BUF), so that processes on one pipe do not mix their lines. */
export function wholeLines(write: Writer, bytesMax = pipeBytes): Writer {
  return (bytes) => {
    let at = 0;
    while (at < bytes.length) {
      const piece = bytes.subarray(at, endOfPiece(bytes, at, bytesMax));
      const written = write(piece);
      if (written === null) return at === 0 ? null : at;
      at += written;
      if (written < piece.length) break;
    }
    return at;
  };
}

/** Returns how many bytes were written; null if none of them ever will be. */
type Writer = (bytes: Uint8Array) => number | null;

/** The end of the last line that fits; of the first line, if none fits. */
function endOfPiece(bytes: Uint8Array, from: number, bytesMax: number): number {
  if (bytes.length - from <= bytesMax) return bytes.length;
  const last = bytes.lastIndexOf(newline, from + bytesMax - 1);
  if (last >= from) return last + 1;
  const next = bytes.indexOf(newline, from);
  return next === -1 ? bytes.length : next + 1;
}

const newline = "\n".charCodeAt(0);

/** PIPE_BUF of Linux; elsewhere it may be 512, which is about a line. */
const pipeBytes = 4_096;
