/** An answer that is no chat, in steps. Asked for again it is the same: it depends on nothing but its exchange. */
export interface Performance {
  /** Piece by piece, or whole and with its length. */
  readonly streams: boolean;
  readonly contentType: string;
  readonly count: number;
  readonly step: (index: number) => PerformedStep;
  /** The payloads of the events at its end. */
  readonly closing: () => readonly string[];
  /** The body, where it comes whole. */
  readonly whole: () => Uint8Array;
}

export interface PerformedStep {
  /** For the ledger. */
  readonly audio: Uint8Array | null;
  readonly text: string;
  /** Of the event that carries it; null: the audio goes out as it is. */
  readonly payload: string | null;
}
