import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { UnnamedFile } from "../../files/unnamed-file.ts";
import type { Failure } from "../../operations/failure.ts";
import type { StoredFile } from "../../media/stored-file.ts";
import { notStored } from "./form-errors.ts";
import { SpoolBuffer } from "./spool-buffer.ts";

/**
 * Stores an upload: in memory while it is small, then in an unnamed file, which the system removes when its descriptor is
 * closed, even if this process crashes.
 */
export class Spool {
  readonly #directory: string;
  readonly #memoryBytesMax: number;
  #filling = new SpoolBuffer();
  #spare = new SpoolBuffer();
  #head: Uint8Array = new Uint8Array(0);
  #length = 0;
  #file: UnnamedFile | null = null;
  /** The write that is in progress while more is collected. It never rejects. */
  #writing: Promise<Failure | null> | null = null;
  #disposed = false;

  /** An upload that is expected to be large is not collected in memory first. */
  constructor(directory: string = tmpdir(), expectedBytes = 0) {
    this.#directory = directory;
    this.#memoryBytesMax = expectedBytes > memoryBytesMax ? gatheredBytesMax : memoryBytesMax;
  }

  get length(): number {
    return this.#length;
  }

  /**
   * Takes bytes, which belong to the caller again once the promise resolves. Must not be called again before that. A disk error
   * may be reported one call later.
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
        // The disk sets the pace: only one write is in progress at a time.
        const failed = await this.#writing;
        if (failed !== null) return failed;
        [this.#filling, this.#spare] = [this.#spare, this.#filling];
        this.#writing = this.#toDisk(this.#spare);
      }
    }
    return null;
  }

  /** No more will come. The result can be read until the spool is disposed of. */
  async finish(): Promise<StoredFile | Failure> {
    if (this.#writing !== null) {
      const failed = (await this.#writing) ?? (await this.#toDisk(this.#filling));
      if (failed !== null) return failed;
      this.#filling.clear(0);
      this.#spare.clear(0);
    }
    return {
      length: this.#length,
      head: this.#head,
      seal: randomBytes(16).toString("hex"),
      read: (from, length) => this.#read(from, length),
    };
  }

  /** Frees its memory and its disk space once no write is in progress. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const clear = (): void => {
      this.#filling.clear(0);
      this.#spare.clear(0);
    };
    if (this.#file === null) clear();
    else this.#file.dispose(clear);
  }

  async #toDisk(gathered: SpoolBuffer): Promise<Failure | null> {
    try {
      if (this.#disposed) throw new Error("a spool was written after it was disposed of");
      this.#file ??= new UnnamedFile(this.#directory);
      await this.#file.append(gathered.view());
    } catch (error) {
      return notStored(error);
    }
    gathered.clear(2 * gatheredBytesMax);
    return null;
  }

  async #read(from: number, length: number): Promise<Uint8Array> {
    if (this.#disposed) throw new Error("a spool was read after it was disposed of");
    if (this.#file !== null) return this.#file.read(from, length);
    const start = Math.max(0, Math.min(from, this.#length));
    const end = Math.max(start, Math.min(start + length, this.#length));
    return new Uint8Array(this.#filling.view().subarray(start, end));
  }
}

const headBytesMax = 4096;
const memoryBytesMax = 1024 * 1024;
/** How much is collected while the previous write is in progress. */
const gatheredBytesMax = 256 * 1024;
