import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { UnnamedFile } from "../../files/unnamed-file.ts";
import type { StoredFile } from "../../media/stored-file.ts";

/** A part of a recording in an unnamed temporary file. */
export class PartFile {
  readonly #file: UnnamedFile;
  #head: Uint8Array = new Uint8Array(0);

  /** Throws when the file cannot be created. */
  constructor(directory: string = tmpdir()) {
    this.#file = new UnnamedFile(directory);
  }

  async append(bytes: Uint8Array): Promise<void> {
    if (this.#head.length < headBytesMax) {
      this.#head = Buffer.concat([this.#head, bytes.subarray(0, headBytesMax - this.#head.length)]);
    }
    await this.#file.append(bytes);
  }

  /** Readable until `dispose`. */
  stored(): StoredFile {
    const seal = randomBytes(16).toString("hex");
    return { length: this.#file.length, head: this.#head, seal, read: (from, length) => this.#file.read(from, length) };
  }

  dispose(): void {
    this.#file.dispose();
  }
}

const headBytesMax = 4096;
