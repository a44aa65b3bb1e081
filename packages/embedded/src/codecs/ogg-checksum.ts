/** Ogg's own check of a page: 32 bits, polynomial 04c11db7, nothing reversed, over the page with zeros in the check's place. */
export function checksum(page: Uint8Array): number {
  let sum = 0;
  for (let index = 0; index < page.length; index++) {
    const byte = index >= 22 && index < 26 ? 0 : page[index]!;
    sum = (sum << 8) ^ table[((sum >>> 24) ^ byte) & 0xff]!;
  }
  return sum >>> 0;
}

const table = Int32Array.from({ length: 256 }, (_, index) => {
  let sum = index << 24;
  for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum < 0 ? 0x04_c1_1d_b7 : 0);
  return sum;
});
