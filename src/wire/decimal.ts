/** Writes a whole number in decimal digits, without making a text of it. Returns where it ends. */
export function putDecimal(bytes: Uint8Array, at: number, value: number): number {
  let end = at + 1;
  for (let over = value; over >= 10; over = Math.floor(over / 10)) end++;
  for (let place = end - 1, rest = value; place >= at; place--, rest = Math.floor(rest / 10)) bytes[place] = 0x30 + (rest % 10);
  return end;
}
