/** Something that reads bytes of others, and what it promises for every input. */
export interface FuzzTarget {
  readonly name: string;
  /** What mutation starts from: inputs that are mostly as they should be. */
  readonly seeds: readonly (string | Uint8Array)[];
  /** Words of its language, which mutation puts in now and then. */
  readonly words?: readonly (string | Uint8Array)[];
  /** The longest input that is tried; 4 KiB unless it says. */
  readonly bytesMax?: number;
  /**
   * Reads one input, and throws where a promise is broken. What it returns says in few words what became of the input:
   * one with an outcome that was not seen before is mutated further. An input that takes longer than a second is a failure too.
   */
  readonly check: (input: Uint8Array, dice: Dice) => string | Promise<string>;
}

/** A whole number from 0 to below the bound, the same ones for the same seed. */
export type Dice = (below: number) => number;

export function seededDice(seed: number): Dice {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Cuts bytes at random places, as a network does. Each piece is a copy of its own. */
export function cutAtRandom(bytes: Uint8Array, dice: Dice): readonly Buffer[] {
  const places = Array.from({ length: dice(6) }, () => dice(bytes.length + 1)).toSorted((one, other) => one - other);
  return [...places, bytes.length].map((end, index) => Buffer.from(bytes.subarray(places[index - 1] ?? 0, end)));
}
