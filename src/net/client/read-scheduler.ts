import { overflow } from "./overflow.ts";

/** Whoever reads much at once. */
export interface PausedReader {
  resumeReading(): void;
}

/**
 * How much is read in one turn of the event loop. A socket that is ready is read as far as there is anything, so many that
 * flood us would take memory for all of it and keep everybody else waiting. Whoever reads beyond the measure stops, and
 * those that have stopped go on a few in each turn.
 */
export class ReadScheduler {
  private readonly waiting = new Set<PausedReader>();
  private isComing = false;
  private readBytes = 0;

  constructor(
    private readonly options: {
      readonly bytesPerTurn: number;
      readonly readersPerTurn: number;
      /** They should come more slowly. */
      readonly isBusy: () => boolean;
    },
  ) {}

  /** So much was read. Returns whether it is beyond the measure of this turn. */
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

/** A disk that hangs makes them slower, and does not stop them. */
const busyMs = 5;

/** Of this process. */
export const readScheduler = new ReadScheduler({
  bytesPerTurn: 512 * 1024,
  readersPerTurn: 2,
  isBusy: () => overflow.isBusy,
});
