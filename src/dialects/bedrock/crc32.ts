/** CRC-32 as in zlib and Ethernet (polynomial 0xEDB88320), continued from an earlier value. */
export function crc32(bytes: Uint8Array, start = 0): number {
  let crc = ~start;
  for (const byte of bytes) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff]!;
  return ~crc >>> 0;
}

const table: Uint32Array = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});
