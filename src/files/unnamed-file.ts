import { randomUUID } from "node:crypto";
import { close, closeSync, constants, openSync, read, unlinkSync, write } from "node:fs";
import { join } from "node:path";

/** A file without a name: it is gone when it is closed, whatever becomes of this process. */
export class UnnamedFile {
  readonly #descriptor: number;
  #length = 0;
  /** How much the system does at this moment. The descriptor stays open until then: its number could be another's at once. */
  #busy = 0;
  #disposed = false;
  #closed: () => void = nothing;

  /** It throws where there is no room. */
  constructor(directory: string) {
    this.#descriptor = openUnnamed(directory);
  }

  get length(): number {
    return this.#length;
  }

  append(bytes: Uint8Array): Promise<void> {
    return this.write(bytes, this.#length);
  }

  /** Puts bytes at a place, which may lie behind all others. */
  async write(bytes: Uint8Array, at: number): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const count = await this.#use((then) => write(this.#descriptor, bytes, done, bytes.length - done, at + done, then));
      if (count === 0) throw new Error("the disk takes no more");
      done += count;
      this.#length = Math.max(this.#length, at + done);
    }
  }

  /** As many bytes from a place on as there are. */
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

  /** Says when nothing of it is in use any more: what is still being written must stay where it is until then. */
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

/** Both at once, without a pause in which the process could end and leave a name behind. */
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
