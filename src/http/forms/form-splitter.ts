/**
 * Splits the body of a form (RFC 7578; RFC 2046, 5.1) as it arrives, in chunks of any size. It keeps only what cannot be decided
 * yet: the headers of one part, or a possible boundary.
 */
export interface FormSplitter {
  /** The pieces in a chunk. Their bytes are views of the chunk, and all of them must be taken before the next chunk. */
  pieces(chunk: Uint8Array): Iterable<FormPiece>;
  /** Whether the closing boundary has arrived. Everything after it is ignored. */
  readonly closed: boolean;
}

export type FormPiece =
  | { readonly kind: "headers"; readonly block: Uint8Array }
  | { readonly kind: "content"; readonly bytes: Uint8Array }
  | { readonly kind: "part-end" }
  /** The form cannot be parsed further. */
  | { readonly kind: "headers-too-long" };

export function formSplitter(boundary: string): FormSplitter {
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  let state: "preamble" | "headers" | "content" | "closed" = "preamble";
  // The first boundary may be at the very beginning, without the line end that belongs to it, so one is supplied.
  let held: Buffer = Buffer.from("\r\n");
  /** The line end between headers and content may belong to a boundary, so it is searched but not handed out. */
  let leadBytes = 0;

  function* pieces(chunk: Uint8Array): Generator<FormPiece, void, void> {
    if (state === "closed") return;
    const bytes = held.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat([held, chunk]);
    held = nothing;
    let from = 0;
    for (;;) {
      if (state === "headers") {
        const end = bytes.indexOf("\r\n\r\n", from);
        if ((end === -1 ? bytes.length : end) - from > headerBytesMax) {
          yield { kind: "headers-too-long" };
          return;
        }
        if (end === -1) return hold(bytes, from);
        yield { kind: "headers", block: bytes.subarray(Math.min(from + 2, end), end) };
        from = end + 2;
        leadBytes = 2;
        state = "content";
      }
      const mark = nextBoundary(bytes, from);
      if (state === "content" && mark.at > from) {
        const content = bytes.subarray(from + leadBytes, mark.at);
        leadBytes = 0;
        if (content.length > 0) yield { kind: "content", bytes: content };
      }
      if (mark.kind === "unclear") return hold(bytes, mark.at);
      if (state === "content") yield { kind: "part-end" };
      if (mark.kind === "last") {
        state = "closed";
        return;
      }
      state = "headers";
      from = mark.lineEnd;
    }
  }

  function hold(bytes: Buffer, from: number): void {
    // A copy, so that a few bytes do not keep a whole chunk alive.
    held = Buffer.from(bytes.subarray(from));
  }

  /** The next boundary, or the position where one may begin. */
  function nextBoundary(bytes: Buffer, from: number): BoundaryMatch {
    for (let search = from; ;) {
      const at = bytes.indexOf(delimiter, search);
      if (at === -1) return { kind: "unclear", at: beginOf(delimiter, bytes, search) };
      const end = at + delimiter.length;
      if (bytes[end] === dash && bytes[end + 1] === dash) return { kind: "last", at };
      let lineEnd = end;
      while (lineEnd - end < paddingBytesMax && (bytes[lineEnd] === space || bytes[lineEnd] === tab)) lineEnd += 1;
      const [first, second] = bytes.subarray(lineEnd, lineEnd + 2);
      if (first === cr && second === lf) return { kind: "next", at, lineEnd };
      const cut = first === undefined || (second === undefined && (first === cr || (first === dash && lineEnd === end)));
      if (cut) return { kind: "unclear", at };
      // It only began like a boundary, so it is content.
      search = end;
    }
  }

  return {
    pieces,
    get closed() {
      return state === "closed";
    },
  };
}

type BoundaryMatch =
  | { readonly kind: "next"; readonly at: number; readonly lineEnd: number }
  | { readonly kind: "last"; readonly at: number }
  | { readonly kind: "unclear"; readonly at: number };

/** The position where the bytes end with a prefix of the delimiter; their length if they do not. */
function beginOf(delimiter: Buffer, bytes: Buffer, from: number): number {
  let at = Math.max(from, bytes.length - delimiter.length + 1);
  for (;;) {
    at = bytes.indexOf(cr, at);
    if (at === -1) return bytes.length;
    if (delimiter.subarray(0, bytes.length - at).equals(bytes.subarray(at))) return at;
    at += 1;
  }
}

const headerBytesMax = 16 * 1024;
/** White space that may follow a boundary (RFC 2046, 5.1.1). */
const paddingBytesMax = 128;
const [tab, lf, cr, space, dash] = [0x09, 0x0a, 0x0d, 0x20, 0x2d];
const nothing = Buffer.alloc(0);
