/** Warnings that processes leave for one another: this upstream cools down, for this long. They vanish by themselves. */
export interface DistributedHints {
  /** Resolves with a mark that tells this hint from any other, as it is read by all. */
  tell(hint: Hint): Promise<string>;
  /** Those that still hold. */
  read(): Promise<readonly MarkedHint[]>;
}

export interface Hint {
  readonly scope: string;
  readonly cause: string;
  readonly forMs: number;
}

export interface MarkedHint extends Hint {
  readonly mark: string;
}

/** No hint holds longer, whatever it says; and no more of them are read at once. */
export const hintMsMax = 3_600_000;
export const hintsMax = 1_000;
export const hintTextMax = 500;
