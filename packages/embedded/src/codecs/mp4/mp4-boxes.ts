import { noBytes } from "../bytes.ts";
import { uint64At, fourCcAt, viewOf } from "../../../../../src/media/containers/bytes.ts";

/** One box of an MP4 file: its name, where it begins, and its content as far as it is there. */
export interface Box {
  readonly name: string;
  readonly from: number;
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Box after box. Each is at least as long as its own head, so there are no more than the bytes allow. */
export function* boxesIn(bytes: Uint8Array): Generator<Box> {
  const view = viewOf(bytes);
  for (let at = 0; at + 8 <= bytes.length;) {
    const short = view.getUint32(at);
    if (short === 1 && at + 16 > bytes.length) return;
    const headBytes = short === 1 ? 16 : 8;
    const length = short === 0 ? bytes.length - at : short === 1 ? uint64At(view, at + 8) : short;
    if (length < headBytes) return;
    const content = bytes.subarray(at + headBytes, Math.min(bytes.length, at + length));
    yield { name: fourCcAt(bytes, at + 4), from: at, bytes: content, view: viewOf(content) };
    at += length;
  }
}

/** The content of the first box under these names, one inside of the other. */
export function boxUnder(parent: Uint8Array, ...path: readonly string[]): Box | null {
  let found: Box | null = null;
  let inside = parent;
  for (const name of path) {
    found = null;
    for (const box of boxesIn(inside)) {
      if (box.name !== name) continue;
      found = box;
      break;
    }
    if (found === null) return null;
    inside = found.bytes;
  }
  return found;
}

/**
 * A table of entries of one size behind a head. How many there are is a matter of the bytes that are there; the number in front
 * of them can only make them fewer.
 */
export interface Table {
  readonly length: number;
  readonly view: DataView;
  /** Where an entry begins. */
  at(index: number): number;
}

export function tableIn(box: Box | null, entryBytes: number, headBytes = 8): Table {
  if (box === null || box.bytes.length < headBytes) return { length: 0, view: viewOf(noBytes), at: () => 0 };
  const { bytes, view } = box;
  const length = Math.min(view.getUint32(headBytes - 4), Math.floor((bytes.length - headBytes) / entryBytes));
  return { length, view, at: (index) => headBytes + index * entryBytes };
}
