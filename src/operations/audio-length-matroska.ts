import { windowAt, windowBytes, type Window } from "./audio-length-bytes.ts";
import type { StoredFile } from "./stored-file.ts";

/** What WebM and Matroska say of themselves near their beginning. Recorders that stream say nothing. */
export async function matroskaSeconds(file: StoredFile): Promise<number | null> {
  const start = await windowAt(file, 0, windowBytes);
  const segment = childIn(start, { from: 0, to: start.bytes.length }, ids.segment);
  const facts = segment === null ? null : childIn(start, segment, ids.info);
  const duration = facts === null ? null : childIn(start, facts, ids.duration);
  if (facts === null || duration === null) return null;
  const ticks = floatIn(start.view, duration);
  const scale = childIn(start, facts, ids.timestampScale);
  const nanoseconds = scale === null ? 1_000_000 : integerIn(start.bytes, scale);
  return ticks === null || !Number.isFinite(ticks) ? null : (ticks * nanoseconds) / 1e9;
}

const ids = { segment: 0x18538067, info: 0x1549a966, timestampScale: 0x2ad7b1, duration: 0x4489, cluster: 0x1f43b675 } as const;

interface Span {
  readonly from: number;
  readonly to: number;
}

/** The content of the first child of this name. Behind the first cluster there is only sound. */
function childIn({ bytes }: Window, parent: Span, wanted: number): Span | null {
  let at = parent.from;
  while (at < parent.to) {
    const id = numberAt(bytes, at, false);
    const size = id === null ? null : numberAt(bytes, at + id.lengthBytes, true);
    if (id === null || size === null || id.value === ids.cluster) return null;
    const from = at + id.lengthBytes + size.lengthBytes;
    const to = size.isUnknown ? parent.to : Math.min(from + size.value, parent.to);
    if (id.value === wanted) return { from, to };
    at = to;
  }
  return null;
}

interface ElementNumber {
  readonly value: number;
  readonly lengthBytes: number;
  readonly isUnknown: boolean;
}

/** A number that says with its first bits how many bytes it has. A name keeps those bits, a size does not. */
function numberAt(bytes: Uint8Array, at: number, isSize: boolean): ElementNumber | null {
  const first = bytes[at];
  if (first === undefined || first === 0) return null;
  const lengthBytes = Math.clz32(first) - 23;
  if (at + lengthBytes > bytes.length || (!isSize && lengthBytes > 4)) return null;
  const mark = 0x80 >> (lengthBytes - 1);
  let value = isSize ? first - mark : first;
  for (let index = 1; index < lengthBytes; index++) value = value * 256 + bytes[at + index]!;
  return { value, lengthBytes, isUnknown: isSize && value >= 2 ** (7 * lengthBytes) - 1 };
}

function floatIn(view: DataView, { from, to }: Span): number | null {
  if (to - from === 4) return view.getFloat32(from);
  return to - from === 8 ? view.getFloat64(from) : null;
}

function integerIn(bytes: Uint8Array, { from, to }: Span): number {
  return bytes.subarray(from, Math.min(to, from + 8)).reduce((sum, byte) => sum * 256 + byte, 0);
}
