/** Writes a whole number as decimal digits without allocating a string. Returns the position after the last digit. */
export function putDecimal(bytes: Uint8Array, at: number, value: number): number {
  if (value < billion) return putShort(bytes, at, value | 0);
  // Division of 32-bit integers is several times as fast as that of larger numbers.
  const billions = Math.floor(value / billion);
  const end = putDecimal(bytes, at, billions);
  putDigits(bytes, end, end + billionDigits, (value - billions * billion) | 0);
  return end + billionDigits;
}

function putShort(bytes: Uint8Array, at: number, value: number): number {
  let end = at + 1;
  for (let next = 10; next <= value; next *= 10) end++;
  putDigits(bytes, at, end, value);
  return end;
}

/** Pads with leading zeroes where there are more positions than digits. */
function putDigits(bytes: Uint8Array, from: number, to: number, value: number): void {
  let rest = value;
  for (let index = to - 1; index >= from; index--) {
    const tens = (rest / 10) | 0;
    bytes[index] = 0x30 + rest - tens * 10;
    rest = tens;
  }
}

const billion = 1_000_000_000;
const billionDigits = 9;
