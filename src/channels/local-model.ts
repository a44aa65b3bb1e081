import type { Operation } from "../operations/operation.ts";

/** A model that runs on this machine, in a process of our own. */
export interface LocalModel {
  /** What clients call it, such as `embedded/whisper-base`. */
  readonly id: string;
  /** What its engine calls it. */
  readonly upstream: string;
  readonly operation: Operation;
  /** What it is and what to expect of it, honestly. */
  readonly description: string;
  /** The voices it speaks with, the usual one first. */
  readonly voices?: readonly string[];
}
