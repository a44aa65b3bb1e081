/**
 * Processes that write to one pipe do not cut into each other's lines as long as each write is small enough for the system to
 * take it in one piece.
 */
export function wholeLines(write: (text: string) => number, bytesMax = pipeBytes): (text: string) => number {
  return (text) => {
    let at = 0;
    while (at < text.length) {
      const piece = text.slice(at, endOfPiece(text, at, bytesMax));
      const written = write(piece);
      at += written;
      if (written < piece.length) break;
    }
    return at;
  };
}

/** After the last line that fits, or after the first one where none does. */
function endOfPiece(text: string, from: number, bytesMax: number): number {
  let end = from;
  let bytes = 0;
  for (;;) {
    const next = text.indexOf("\n", end) + 1;
    const lineEnd = next === 0 ? text.length : next;
    bytes += Buffer.byteLength(text.slice(end, lineEnd));
    if (bytes > bytesMax) return end === from ? lineEnd : end;
    end = lineEnd;
    if (end === text.length) return end;
  }
}

/** What Linux keeps together; elsewhere it may be 512, which is about a line. */
const pipeBytes = 4_096;
