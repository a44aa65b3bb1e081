import { randomUUID } from "node:crypto";
import { close, closeSync, constants, openSync, read, unlinkSync, write } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StoredFile } from "../operations/stored-file.ts";

/** A part of a recording on the disk, in a file without a name: it is gone when it is closed, whatever becomes of this process. */
export class SplitFile {
  readonly #descriptor: number;
  #head: Uint8Array = new Uint8Array(0);
  #length = 0;
  /** How much the system does at this moment. The descriptor stays open until then: its number could be another's at once. */
  #busy = 0;
  #disposed = false;

  /** It throws where there is no room. */
  constructor(directory: string = tmpdir()) {
    this.#descriptor = openUnnamed(directory);
  }

  async append(bytes: Uint8Array): Promise<void> {
    if (this.#head.length < headBytesMax) {
      this.#head = Buffer.concat([this.#head, bytes.subarray(0, headBytesMax - this.#head.length)]);
    }
    for (let done = 0; done < bytes.length;) {
      const count = await this.#use((then) => write(this.#descriptor, bytes, done, bytes.length - done, this.#length, then));
      if (count === 0) throw new Error("the disk takes no more");
      done += count;
      this.#length += count;
    }
  }

  /** To be read until it is disposed of. */
  stored(): StoredFile {
    return { length: this.#length, head: this.#head, read: (from, length) => this.#read(from, length) };
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#closeWhenIdle();
  }

  async #read(from: number, length: number): Promise<Uint8Array> {
    const start = Math.max(0, Math.min(from, this.#length));
    const bytes = Buffer.allocUnsafeSlow(Math.max(0, Math.min(length, this.#length - start)));
    for (let done = 0; done < bytes.length;) {
      const count = await this.#use((then) => read(this.#descriptor, bytes, done, bytes.length - done, start + done, then));
      if (count === 0) throw new Error("the file of a part is shorter than it was");
      done += count;
    }
    return bytes;
  }

  #use(act: (then: (error: Error | null, count: number) => void) => void): Promise<number> {
    if (this.#disposed) return Promise.reject(new Error("a part of a recording was used after it was disposed of"));
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
    if (this.#busy === 0) close(this.#descriptor, () => {});
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

const headBytesMax = 4096;
