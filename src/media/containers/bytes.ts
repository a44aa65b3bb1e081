/** Whether these characters stand at an offset; `more` where the bytes end before that can be told. */
export function matchText(bytes: Uint8Array, at: number, text: string): "yes" | "no" | "more" {
  for (let index = 0; index < text.length; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return "more";
    if (byte !== text.charCodeAt(index)) return "no";
  }
  return "yes";
}

export function hasTextAt(bytes: Uint8Array, at: number, text: string): boolean {
  return matchText(bytes, at, text) === "yes";
}

export function fourCcAt(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4));
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A number of 64 bits. Beyond 2^53 it is not exact, and no file is that long. */
export function uint64At(view: DataView, at: number, littleEndian = false): number {
  const [first, second] = [view.getUint32(at, littleEndian), view.getUint32(at + 4, littleEndian)];
  return littleEndian ? second * 2 ** 32 + first : first * 2 ** 32 + second;
}
