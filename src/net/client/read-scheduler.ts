import { overflow } from "./overflow.ts";

/** A connection that has stopped reading until it gets a turn. */
export interface PausedReader {
  resumeReading(): void;
}

/**
 * Limits how much is read in one turn of the event loop. A readable socket is read until it is empty, so many fast upstreams
 * would fill the memory and delay everything else. Connections that exceed the limit stop, and a few of them continue in each
 * turn.
 */
export class ReadScheduler {
  private readonly waiting = new Set<PausedReader>();
  private isComing = false;
  private readBytes = 0;

  constructor(
    private readonly options: {
      readonly bytesPerTurn: number;
      readonly readersPerTurn: number;
      /** Turns should come more slowly. */
      readonly isBusy: () => boolean;
    },
  ) {}

  /** Counts bytes that were read. Returns whether they exceed the limit of this turn. */
  isTooMuch(bytes: number): boolean {
    if (this.readBytes === 0) setImmediate(() => (this.readBytes = 0));
    this.readBytes += bytes;
    return this.readBytes > this.options.bytesPerTurn;
  }

  ask(taker: PausedReader): void {
    this.waiting.add(taker);
    if (!this.isComing) this.come();
  }

  private come(): void {
    this.isComing = true;
    if (this.options.isBusy()) setTimeout(() => this.turn(), busyMs);
    else setImmediate(() => this.turn());
  }

  private turn(): void {
    this.isComing = false;
    let left = this.options.readersPerTurn;
    for (const taker of this.waiting) {
      if (left-- === 0) return this.come();
      this.waiting.delete(taker);
      taker.resumeReading();
    }
  }
}

/** A hanging disk slows the readers down, and does not stop them. */
const busyMs = 5;

/** The instance of this process. */
export const readScheduler = new ReadScheduler({
  bytesPerTurn: 512 * 1024,
  readersPerTurn: 2,
  isBusy: () => overflow.isBusy,
});
