import { randomUUID } from "node:crypto";
import { close, closeSync, constants, openSync, read, unlinkSync, write } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Failure } from "../operations/failure.ts";
import type { StoredFile } from "../operations/stored-file.ts";
import { notStored } from "./form-refusals.ts";
import { SpoolBuffer } from "./spool-buffer.ts";

/**
 * Where an upload waits to be read: in memory while it is small, then in a file without a name, which the system removes
 * by itself when its descriptor is closed, whatever becomes of this process.
 */
export class Spool {
  readonly #directory: string;
  readonly #memoryBytesMax: number;
  #filling = new SpoolBuffer();
  #spare = new SpoolBuffer();
  #head: Uint8Array = new Uint8Array(0);
  #length = 0;
  /** How much of it is in the file. */
  #written = 0;
  #descriptor: number | null = null;
  /** The write that goes on while more is gathered. It resolves, in any case. */
  #writing: Promise<Failure | null> | null = null;
  /** How much the system does at this moment. Until it is done, descriptor and memory stay: both could be another's at once. */
  #busy = 0;
  #disposed = false;

  /** What is known to become large does not need to be gathered in memory first. */
  constructor(directory: string = tmpdir(), expectedBytes = 0) {
    this.#directory = directory;
    this.#memoryBytesMax = expectedBytes > memoryBytesMax ? gatheredBytesMax : memoryBytesMax;
  }

  get length(): number {
    return this.#length;
  }

  /**
   * Takes the bytes, which belong to the caller again once it has resolved. Not to be called again before that. What is
   * wrong with the disk may be told one call later.
   */
  async write(bytes: Uint8Array): Promise<Failure | null> {
    if (this.#head.length < headBytesMax) {
      this.#head = Buffer.concat([this.#head, bytes.subarray(0, headBytesMax - this.#head.length)]);
    }
    this.#length += bytes.length;
    for (let at = 0; at < bytes.length;) {
      const room = (this.#writing === null ? this.#memoryBytesMax : gatheredBytesMax) - this.#filling.length;
      if (room > 0) {
        const piece = bytes.subarray(at, at + room);
        this.#filling.append(piece);
        at += piece.length;
      } else {
        // The disk sets the pace: only one write goes on at a time.
        const failed = await this.#writing;
        if (failed !== null) return failed;
        [this.#filling, this.#spare] = [this.#spare, this.#filling];
        this.#writing = this.#toDisk(this.#spare);
      }
    }
    return null;
  }

  /** No more will come. What it gives can be read until the spool is disposed of. */
  async finish(): Promise<StoredFile | Failure> {
    if (this.#writing !== null) {
      const failed = (await this.#writing) ?? (await this.#toDisk(this.#filling));
      if (failed !== null) return failed;
      this.#filling.clear(0);
      this.#spare.clear(0);
    }
    return { length: this.#length, head: this.#head, read: (from, length) => this.#read(from, length) };
  }

  /** Gives back its memory and its place on the disk. */
  dispose(): void {
    this.#disposed = true;
    this.#closeWhenIdle();
  }

  async #toDisk(gathered: SpoolBuffer): Promise<Failure | null> {
    try {
      if (this.#disposed) throw new Error("a spool was written after it was disposed of");
      this.#descriptor ??= openUnnamed(this.#directory);
      await this.#append(gathered.view(), this.#descriptor);
    } catch (error) {
      return notStored(error);
    }
    gathered.clear(2 * gatheredBytesMax);
    return null;
  }

  async #append(bytes: Uint8Array, descriptor: number): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const taken = await this.#use((then) => write(descriptor, bytes, done, bytes.length - done, this.#written, then));
      if (taken === 0) throw new Error("the disk takes no more");
      done += taken;
      this.#written += taken;
    }
  }

  async #read(from: number, length: number): Promise<Uint8Array> {
    const start = Math.max(0, Math.min(from, this.#length));
    const bytes = Buffer.allocUnsafeSlow(Math.max(0, Math.min(length, this.#length - start)));
    const descriptor = this.#descriptor;
    if (this.#disposed) throw new Error("a spool was read after it was disposed of");
    if (descriptor === null) {
      bytes.set(this.#filling.view().subarray(start, start + bytes.length));
      return bytes;
    }
    for (let done = 0; done < bytes.length;) {
      const given = await this.#use((then) => read(descriptor, bytes, done, bytes.length - done, start + done, then));
      if (given === 0) throw new Error("the file of a spool is shorter than it was");
      done += given;
    }
    return bytes;
  }

  /** One act on the descriptor, which stays open until it is over. */
  #use(act: (then: (error: Error | null, count: number) => void) => void): Promise<number> {
    if (this.#disposed) return Promise.reject(new Error("a spool was used after it was disposed of"));
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
    this.#filling.clear(0);
    this.#spare.clear(0);
    if (this.#descriptor === null) return;
    close(this.#descriptor, () => {});
    this.#descriptor = null;
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
const memoryBytesMax = 1024 * 1024;
/** What is gathered while the write before it goes on. */
const gatheredBytesMax = 256 * 1024;
