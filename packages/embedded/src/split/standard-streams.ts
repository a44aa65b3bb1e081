import { readSync, writeSync } from "node:fs";
import { whileWaiting } from "./progress.ts";

/**
 * Reads stdin and writes stdout synchronously: this process has nothing else to do, so that a full pipe simply blocks it, and it never
 * holds more in memory than it is working on.
 */
export function* standardInput(length: number): Generator<Uint8Array> {
  const buffer = new Uint8Array(chunkBytes);
  for (let left = length; left > 0;) {
    const count = whileWaiting(() => retryOnAgain(() => readSync(0, buffer, 0, chunkBytes, null)));
    // The parent has exited, and the file is incomplete.
    if (count === 0) throw new Error("the input ended early");
    left -= count;
    yield buffer.slice(0, count);
  }
}

export function writeOut(bytes: Uint8Array): void {
  whileWaiting(() => {
    for (let done = 0; done < bytes.length;) done += retryOnAgain(() => writeSync(1, bytes, done, bytes.length - done));
  });
}

const chunkBytes = 64 * 1024;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** The parent may have made the streams non-blocking. */
function retryOnAgain(act: () => number): number {
  for (;;) {
    try {
      return act();
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== "EAGAIN") throw error;
      Atomics.wait(sleeper, 0, 0, 5);
    }
  }
}
