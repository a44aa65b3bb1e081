/** Bytes without any order, the same on every run: among those of chance, every few thousandth heap holds two frames of MP3. */
export function noise(length: number): Uint8Array {
  let state = 1;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 24;
  });
}
