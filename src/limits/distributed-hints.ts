/** Messages between processes about upstreams that cool down. They expire by themselves. */
export interface DistributedHints {
  /** Returns the id of the hint, by which readers recognise it. */
  publish(hint: Hint): Promise<string>;
  /** The hints that have not expired. */
  read(): Promise<readonly PublishedHint[]>;
}

export interface Hint {
  readonly scope: string;
  readonly cause: string;
  readonly forMs: number;
}

export interface PublishedHint extends Hint {
  readonly id: string;
}

/** Bounds on how long a hint lasts, how many are read at once, and how long their texts are. */
export const hintMsMax = 3_600_000;
export const hintsMax = 1_000;
export const hintTextMax = 500;
