import type { Dice } from "./target.ts";

/** An input that differs from one or two known ones in a few places. */
export function mutate(known: readonly Uint8Array[], words: readonly Uint8Array[], bytesMax: number, dice: Dice): Uint8Array {
  let bytes: Uint8Array = known[dice(known.length)]!;
  for (let left = 1 + dice(4); left > 0; left--) {
    const change = changes[dice(changes.length)]!;
    bytes = change(bytes, dice, () => (words.length === 0 ? Uint8Array.of(dice(256)) : words[dice(words.length)]!), known);
  }
  return bytes.subarray(0, bytesMax);
}

type Change = (bytes: Uint8Array, dice: Dice, word: () => Uint8Array, known: readonly Uint8Array[]) => Uint8Array;

const changes: readonly Change[] = [
  // One bit, one byte, one that means something in many languages.
  (bytes, dice) => withByte(bytes, dice, (byte) => byte ^ (1 << dice(8))),
  (bytes, dice) => withByte(bytes, dice, () => dice(256)),
  (bytes, dice) => withByte(bytes, dice, () => telling[dice(telling.length)]!),
  (bytes, dice) => insert(bytes, dice(bytes.length + 1), Uint8Array.of(telling[dice(telling.length)]!)),
  // A word, in addition or instead.
  (bytes, dice, word) => insert(bytes, dice(bytes.length + 1), word()),
  (bytes, dice, word) => replace(bytes, dice, word()),
  // A part left out, said twice, or cut off.
  (bytes, dice) => part(bytes, dice, (from, to) => Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)])),
  (bytes, dice) => part(bytes, dice, (from, to) => insert(bytes, dice(bytes.length + 1), bytes.subarray(from, to))),
  (bytes, dice) => bytes.subarray(0, dice(bytes.length + 1)),
  // A number that lies: in digits, and in four bytes of either order.
  (bytes, dice) => withNumber(bytes, dice),
  (bytes, dice) => withCount(bytes, dice),
  // The beginning of one and the end of another.
  (bytes, dice, _, known) => {
    const other = known[dice(known.length)]!;
    return Buffer.concat([bytes.subarray(0, dice(bytes.length + 1)), other.subarray(dice(other.length + 1))]);
  },
];

/** Ends of lines and of text, blanks, what quotes and divides, and the bounds of a byte. */
const telling: readonly number[] = [...Buffer.from("\0\t\n\v\f\r \"'\\,;:=/-{}[]()<>09aF%", "latin1"), 0x7f, 0x80, 0xbf, 0xc0, 0xed, 0xff];

const lies: readonly string[] = [
  "0",
  "1",
  "-1",
  "00",
  "7f",
  "255",
  "65536",
  "4294967295",
  "4294967296",
  "9007199254740993",
  "99999999999999999999",
  "0x10",
  "1e9",
  "+1",
];
const counts: readonly number[] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff];

function withByte(bytes: Uint8Array, dice: Dice, change: (byte: number) => number): Uint8Array {
  if (bytes.length === 0) return bytes;
  const changed = Buffer.from(bytes);
  const at = dice(changed.length);
  changed[at] = change(changed[at]!);
  return changed;
}

function withNumber(bytes: Uint8Array, dice: Dice): Uint8Array {
  const numbers = [...Buffer.from(bytes).toString("latin1").matchAll(/\d+/g)];
  if (numbers.length === 0) return bytes;
  const { index, 0: digits } = numbers[dice(numbers.length)]!;
  return Buffer.concat([bytes.subarray(0, index), Buffer.from(lies[dice(lies.length)]!), bytes.subarray(index + digits.length)]);
}

function withCount(bytes: Uint8Array, dice: Dice): Uint8Array {
  if (bytes.length < 4) return bytes;
  const changed = Buffer.from(bytes);
  const [at, count] = [dice(bytes.length - 3), counts[dice(counts.length)]!];
  if (dice(2) === 0) changed.writeUInt32BE(count, at);
  else changed.writeUInt32LE(count, at);
  return changed;
}

function insert(bytes: Uint8Array, at: number, added: Uint8Array): Uint8Array {
  return Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at)]);
}

function replace(bytes: Uint8Array, dice: Dice, instead: Uint8Array): Uint8Array {
  return part(bytes, dice, (from, to) => Buffer.concat([bytes.subarray(0, from), instead, bytes.subarray(to)]));
}

function part(bytes: Uint8Array, dice: Dice, made: (from: number, to: number) => Uint8Array): Uint8Array {
  const from = dice(bytes.length + 1);
  return made(from, Math.min(bytes.length, from + 1 + dice(24)));
}
