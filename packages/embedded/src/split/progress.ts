/** What the watcher sees of the work (watch.ts). Shared memory, for a thread that is busy answers no question. */
export const progress = new Int32Array(new SharedArrayBuffer(8));
export const stepsAt = 0;
export const waitingAt = 1;

export function oneStep(): void {
  Atomics.add(progress, stepsAt, 1);
}

/** While others are waited for, no step is due. */
export function whileWaiting<T>(act: () => T): T {
  Atomics.store(progress, waitingAt, 1);
  try {
    return act();
  } finally {
    oneStep();
    Atomics.store(progress, waitingAt, 0);
  }
}
