import { overflow } from "./overflow.ts";

/** A connection that has stopped reading until it is scheduled. */
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
  private isTurnScheduled = false;
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

  /** The reader is resumed in one of the next turns. */
  schedule(reader: PausedReader): void {
    this.waiting.add(reader);
    if (!this.isTurnScheduled) this.scheduleTurn();
  }

  private scheduleTurn(): void {
    this.isTurnScheduled = true;
    if (this.options.isBusy()) setTimeout(() => this.runTurn(), busyMs);
    else setImmediate(() => this.runTurn());
  }

  private runTurn(): void {
    this.isTurnScheduled = false;
    let left = this.options.readersPerTurn;
    for (const reader of this.waiting) {
      if (left-- === 0) return this.scheduleTurn();
      this.waiting.delete(reader);
      reader.resumeReading();
    }
  }
}

/** A disk that hangs slows the readers down, but does not stop them. */
const busyMs = 5;

/** The instance of this process. */
export const readScheduler = new ReadScheduler({
  bytesPerTurn: 512 * 1024,
  readersPerTurn: 2,
  isBusy: () => overflow.isBusy,
});
