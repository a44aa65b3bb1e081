/** The sample that each byte stands for, in the two ways of telephony (ITU-T G.711). */
export const ulaw: Float32Array = table((byte) => {
  const bits = ~byte & 0xff;
  const size = ((((bits & 15) << 3) + 0x84) << ((bits >> 4) & 7)) - 0x84;
  return (bits & 0x80) === 0 ? size : -size;
});

export const alaw: Float32Array = table((byte) => {
  const bits = byte ^ 0x55;
  const segment = (bits >> 4) & 7;
  const base = ((bits & 15) << 4) + 8;
  const size = segment === 0 ? base : (base + 0x100) << (segment - 1);
  return (bits & 0x80) === 0 ? -size : size;
});

function table(sample: (byte: number) => number): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => sample(byte) / 32_768);
}
