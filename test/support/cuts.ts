import fc from "fast-check";

/** What a network may make of bytes: one piece for each. */
export function bytewise(bytes: Uint8Array): readonly Uint8Array[] {
  return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
}

/** The pieces between these places, which are in order. */
export function cutAt(bytes: Uint8Array, ...places: readonly number[]): readonly Uint8Array[] {
  const ends = [...places, bytes.length];
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

/** Cuts at the given fractions of the length; empty pieces are pieces too. */
export function cutAtFractions(bytes: Uint8Array, fractions: readonly number[]): readonly Uint8Array[] {
  return cutAt(bytes, ...fractions.map((fraction) => Math.floor(fraction * (bytes.length + 1))).toSorted((a, b) => a - b));
}

/** Whole, byte by byte, and cut at each of the last bytes. */
export function cutNearEnd(bytes: Uint8Array): readonly Iterable<Uint8Array>[] {
  return [[bytes], bytewise(bytes), ...[1, 2, 3, 4, 5].map((before) => cutAt(bytes, bytes.length - before))];
}

/** Where to cut, as fractions of the length. */
export function fractions(maxLength: number): fc.Arbitrary<number[]> {
  return fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { maxLength });
}
