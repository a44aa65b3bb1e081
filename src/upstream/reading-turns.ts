import { overflow } from "./overflow.ts";

/** Whoever reads much at once. */
export interface TurnTaker {
  readOn(): void;
}

/**
 * Those that were told to stop reading go on a few in each turn of the event loop. Each reads as much as there is, so all
 * of them at once would take memory for all, and keep everybody else waiting.
 */
export class ReadingTurns {
  private readonly waiting = new Set<TurnTaker>();
  private isComing = false;

  constructor(
    private readonly perTurn: number,
    /** Others should come more slowly. */
    private readonly isBusy: () => boolean,
  ) {}

  ask(taker: TurnTaker): void {
    this.waiting.add(taker);
    if (!this.isComing) this.come();
  }

  private come(): void {
    this.isComing = true;
    if (this.isBusy()) setTimeout(() => this.turn(), busyMs);
    else setImmediate(() => this.turn());
  }

  private turn(): void {
    this.isComing = false;
    let left = this.perTurn;
    for (const taker of this.waiting) {
      if (left-- === 0) return this.come();
      this.waiting.delete(taker);
      taker.readOn();
    }
  }
}

/** A disk that hangs makes them slower, and does not stop them. */
const busyMs = 5;

/** Of this process. */
export const readingTurns = new ReadingTurns(2, () => overflow.isBusy);
