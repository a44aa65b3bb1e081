/** A counting semaphore with a bounded FIFO queue. */
export class Semaphore {
  readonly #max: number;
  readonly #waitingMax: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(max: number, waitingMax: number) {
    this.#max = max;
    this.#waitingMax = waitingMax;
  }

  /** Returns a permit, which must be released, or null when the queue is full. */
  acquire(): Permit | null {
    if (this.#running < this.#max) {
      this.#running += 1;
      return { ready: Promise.resolve(), release: once(() => this.#next()) };
    }
    if (this.#waiting.length >= this.#waitingMax) return null;
    let wake = (): void => {};
    const ready = new Promise<void>((resolve) => (wake = resolve));
    this.#waiting.push(wake);
    return {
      ready,
      release: once(() => {
        const at = this.#waiting.indexOf(wake);
        if (at < 0) return this.#next();
        this.#waiting.splice(at, 1);
        wake();
      }),
    };
  }

  /** Passes the permit on to the first in the queue. */
  #next(): void {
    const wake = this.#waiting.shift();
    if (wake === undefined) this.#running -= 1;
    else wake();
  }
}

export interface Permit {
  /** Resolves when it was granted or released. */
  readonly ready: Promise<void>;
  release(): void;
}

function once(act: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    act();
  };
}
