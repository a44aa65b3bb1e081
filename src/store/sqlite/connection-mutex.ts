import { AsyncLocalStorage } from "node:async_hooks";
import { StorageError } from "../../gateway/storage.ts";

/**
 * A FIFO mutex for one connection. Single statements run one after the other; a transaction holds the mutex, so that no other
 * statement becomes part of it.
 */
export class ConnectionMutex {
  private holder: object | null = null;
  private readonly waiting: MutexWaiter[] = [];

  /** Runs a statement when it is its turn. It is sent synchronously at that moment, before anybody else can take the mutex. */
  async run<T>(send: () => T | Promise<T>): Promise<T> {
    this.rejectReentry();
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

  /** Runs the work while nobody else can use the connection. */
  async runExclusive<T>(work: () => Promise<T>): Promise<T> {
    this.rejectReentry();
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

  /** Waiting inside a transaction for its own mutex would never end. */
  rejectReentry(): void {
    if (this.holder !== null && inside.getStore() === this.holder) {
      throw new StorageError("unavailable", "Inside a transaction, only the database object that is passed to it can be used.");
    }
  }
}

interface MutexWaiter {
  readonly hold: object | null;
  readonly go: () => void;
}

const inside = new AsyncLocalStorage<object>();
