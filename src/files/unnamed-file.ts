import { randomUUID } from "node:crypto";
import { close, closeSync, constants, openSync, read, unlinkSync, write } from "node:fs";
import { join } from "node:path";

/**
 * A temporary file that is unlinked as soon as it is created, so that it disappears with its descriptor even if this process
 * crashes.
 */
export class UnnamedFile {
  readonly #descriptor: number;
  #length = 0;
  /**
   * The number of pending reads and writes. The descriptor stays open until they are done, because its number can be reused at
   * once.
   */
  #busy = 0;
  #disposed = false;
  #closed: () => void = nothing;

  /** Throws if the file cannot be created. */
  constructor(directory: string) {
    this.#descriptor = openUnnamed(directory);
  }

  get length(): number {
    return this.#length;
  }

  append(bytes: Uint8Array): Promise<void> {
    return this.write(bytes, this.#length);
  }

  /** Writes at an offset, which may lie beyond the end. */
  async write(bytes: Uint8Array, at: number): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const count = await this.#use((then) => write(this.#descriptor, bytes, done, bytes.length - done, at + done, then));
      if (count === 0) throw new Error("the disk takes no more");
      done += count;
      this.#length = Math.max(this.#length, at + done);
    }
  }

  /** Reads up to `length` bytes from an offset. */
  async read(from: number, length: number): Promise<Uint8Array> {
    const start = Math.max(0, Math.min(from, this.#length));
    const bytes = Buffer.allocUnsafeSlow(Math.max(0, Math.min(length, this.#length - start)));
    for (let done = 0; done < bytes.length;) {
      const count = await this.#use((then) => read(this.#descriptor, bytes, done, bytes.length - done, start + done, then));
      if (count === 0) throw new Error("a file is shorter than it was");
      done += count;
    }
    return bytes;
  }

  /** Calls `closed` when no read or write is pending: buffers that are still being written must not be freed before. */
  dispose(closed: () => void = nothing): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#closed = closed;
    this.#closeWhenIdle();
  }

  #use(act: (then: (error: Error | null, count: number) => void) => void): Promise<number> {
    if (this.#disposed) return Promise.reject(new Error("a file was used after it was disposed of"));
    this.#busy += 1;
    return new Promise((resolve, reject) => {
      act((error, count) => {
        this.#busy -= 1;
        if (this.#disposed) this.#closeWhenIdle();
        if (error === null) resolve(count);
        else reject(error);
      });
    });
  }

  #closeWhenIdle(): void {
    if (this.#busy > 0) return;
    close(this.#descriptor, nothing);
    this.#closed();
  }
}

/** Synchronous, so that the process cannot end between the two steps and leave a file behind. */
function openUnnamed(directory: string): number {
  const path = join(directory, `sluice-${randomUUID()}`);
  const descriptor = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    unlinkSync(path);
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
  return descriptor;
}

function nothing(): void {}
