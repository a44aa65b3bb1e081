import { AsyncLocalStorage } from "node:async_hooks";
import { StorageTrouble } from "../../gateway/storage.ts";

/**
 * Whose turn it is on the one connection. Single statements follow each other; a transaction has the connection to itself,
 * so that no stranger's statement becomes part of it. Everybody comes in the order of asking.
 */
export class ConnectionMutex {
  private holder: object | null = null;
  private readonly waiting: MutexWaiter[] = [];

  /** Sends a statement as soon as it may be: not a moment later, when the turn may be somebody else's. */
  async run<T>(send: () => T | Promise<T>): Promise<T> {
    this.refuseInside();
    if (this.holder === null && this.waiting.length === 0) return send();
    return new Promise<T>((resolve, reject) => {
      const go = (): void => {
        try {
          resolve(send());
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
      this.waiting.push({ hold: null, go });
    });
  }

  /** Does the work while nobody else has a turn. */
  async runExclusive<T>(work: () => Promise<T>): Promise<T> {
    this.refuseInside();
    const hold = {};
    if (this.holder === null && this.waiting.length === 0) this.holder = hold;
    else await new Promise<void>((go) => void this.waiting.push({ hold, go }));
    try {
      return await inside.run(hold, work);
    } finally {
      this.holder = null;
      this.next();
    }
  }

  private next(): void {
    while (this.holder === null) {
      const first = this.waiting.shift();
      if (first === undefined) return;
      this.holder = first.hold;
      first.go();
    }
  }

  /** It would wait for itself for ever. */
  private refuseInside(): void {
    if (this.holder !== null && inside.getStore() === this.holder) {
      throw new StorageTrouble("unavailable", "Inside a transaction only the database that was handed to its work can be used.");
    }
  }
}

interface MutexWaiter {
  readonly hold: object | null;
  readonly go: () => void;
}

const inside = new AsyncLocalStorage<object>();
