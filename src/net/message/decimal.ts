/** Writes a whole number in decimal digits, without making a text of it. Returns where it ends. */
export function putDecimal(bytes: Uint8Array, at: number, value: number): number {
  if (value < billion) return putShort(bytes, at, value | 0);
  // Whole numbers of a machine word are several times as quick to divide as those beyond it.
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

/** With zeroes before it where there are more places than digits. */
function putDigits(bytes: Uint8Array, from: number, to: number, value: number): void {
  let rest = value;
  for (let place = to - 1; place >= from; place--) {
    const tens = (rest / 10) | 0;
    bytes[place] = 0x30 + rest - tens * 10;
    rest = tens;
  }
}

const billion = 1_000_000_000;
const billionDigits = 9;
