import { readSync, writeSync } from "node:fs";
import { whileWaiting } from "./progress.ts";

/**
 * The standard streams, read and written while everything else waits: a process with nothing else to do is held up by a
 * full pipe, and so never has more in memory than it works on.
 */
export function* standardInput(length: number): Generator<Uint8Array> {
  const buffer = new Uint8Array(chunkBytes);
  for (let left = length; left > 0;) {
    const count = whileWaiting(() => patiently(() => readSync(0, buffer, 0, chunkBytes, null)));
    // Whoever feeds this process is gone. What came is not the file.
    if (count === 0) throw new Error("the input ended early");
    left -= count;
    yield buffer.slice(0, count);
  }
}

export function writeOut(bytes: Uint8Array): void {
  whileWaiting(() => {
    for (let done = 0; done < bytes.length;) done += patiently(() => writeSync(1, bytes, done, bytes.length - done));
  });
}

const chunkBytes = 64 * 1024;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Whoever started this process may have told its streams not to wait. */
function patiently(act: () => number): number {
  for (;;) {
    try {
      return act();
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== "EAGAIN") throw error;
      Atomics.wait(sleeper, 0, 0, 5);
    }
  }
}
