/**
 * Bytes gathered in one piece of memory: many small pieces would each cost far more than they hold. What it no longer
 * needs it gives back at once, since uploads make garbage faster than it is collected.
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

  /** A view, good until more is appended or it is cleared. */
  view(): Uint8Array {
    return new Uint8Array(this.#memory, 0, this.#length);
  }

  /** Forgets what it holds, but keeps the memory for what comes next, up to a bound. */
  clear(keepBytesMax: number): void {
    this.#length = 0;
    if (this.#memory.byteLength > keepBytesMax) this.#memory = this.#memory.transfer(0);
  }
}

const beginBytes = 4096;
