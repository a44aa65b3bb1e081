import { Worker } from "node:worker_threads";

/**
 * Decodes damaged files in a thread that can be ended: damage may well be such that a decoder never comes back from it, and
 * in the product it is then ended in the same way. One thread for as many files as it survives.
 */
export class DamagedAudio implements Disposable {
  #thread: Worker | null = null;

  /** `read`, `refused`, `ended` because it took too long, or in words what was worse than that. */
  async outcome(file: Uint8Array): Promise<string> {
    const thread = (this.#thread ??= new Worker(new URL("./decoding-thread.ts", import.meta.url)));
    const { promise, resolve } = Promise.withResolvers<string>();
    const timer = setTimeout(() => resolve("ended"), patienceMs);
    const failed = (error: Error): void => resolve(`the thread failed: ${error.message}`);
    thread.once("message", resolve);
    thread.once("error", failed);
    thread.postMessage(file, []);
    const said = await promise;
    clearTimeout(timer);
    thread.off("message", resolve);
    thread.off("error", failed);
    if (said === "ended") this[Symbol.dispose]();
    return said;
  }

  [Symbol.dispose](): void {
    void this.#thread?.terminate();
    this.#thread = null;
  }
}

/** Two seconds of sound take a few milliseconds. */
const patienceMs = 5_000;
