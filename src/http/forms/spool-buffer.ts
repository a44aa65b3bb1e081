/**
 * Collects bytes in one buffer: many small parts would each take far more memory than they hold. Memory is freed explicitly,
 * because uploads make garbage faster than it is collected.
 */
export class SpoolBuffer {
  #memory = new ArrayBuffer(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(bytes: Uint8Array): void {
    const needed = this.#length + bytes.length;
    if (needed > this.#memory.byteLength) {
      this.#memory = this.#memory.transfer(Math.max(needed, this.#memory.byteLength * 2, beginBytes));
    }
    new Uint8Array(this.#memory).set(bytes, this.#length);
    this.#length = needed;
  }

  /** A view, valid until the next append or clear. */
  view(): Uint8Array {
    return new Uint8Array(this.#memory, 0, this.#length);
  }

  /** Empties the buffer, but keeps its memory for reuse, up to a limit. */
  clear(keepBytesMax: number): void {
    this.#length = 0;
    if (this.#memory.byteLength > keepBytesMax) this.#memory = this.#memory.transfer(0);
  }
}

const beginBytes = 4096;
