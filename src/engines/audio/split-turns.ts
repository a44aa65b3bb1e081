/** A few at a time, the others in the order they came. */
export class Turns {
  readonly #max: number;
  readonly #waitingMax: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(max: number, waitingMax: number) {
    this.#max = max;
    this.#waitingMax = waitingMax;
  }

  /** A turn, which must be given back; null where too many wait for one already. */
  take(): Turn | null {
    if (this.#running < this.#max) {
      this.#running += 1;
      return { ready: Promise.resolve(), giveBack: once(() => this.#next()) };
    }
    if (this.#waiting.length >= this.#waitingMax) return null;
    let wake = (): void => {};
    const ready = new Promise<void>((resolve) => (wake = resolve));
    this.#waiting.push(wake);
    return {
      ready,
      giveBack: once(() => {
        const at = this.#waiting.indexOf(wake);
        if (at < 0) return this.#next();
        this.#waiting.splice(at, 1);
        wake();
      }),
    };
  }

  /** A turn goes from hand to hand. */
  #next(): void {
    const wake = this.#waiting.shift();
    if (wake === undefined) this.#running -= 1;
    else wake();
  }
}

export interface Turn {
  /** Resolves when it has come, or when it was given back. */
  readonly ready: Promise<void>;
  giveBack(): void;
}

function once(act: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    act();
  };
}
