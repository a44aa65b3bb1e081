/** Bytes as a peer sends them, to be read at the reader's own grain: a line, a length, whatever has come. */
export class Inbox {
  #chunks: Buffer[] = [];
  #length = 0;
  #ended = false;
  #wake: (() => void) | null = null;

  push(chunk: Uint8Array): void {
    this.#chunks.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    this.#length += chunk.length;
    this.#stir();
  }

  end(): void {
    this.#ended = true;
    this.#stir();
  }

  /** Waits for the first byte without taking it. False when the peer ended before one came. */
  async stirs(): Promise<boolean> {
    while (this.#length === 0 && !this.#ended) await this.#news();
    return this.#length > 0;
  }

  /** Everything up to and including the delimiter; null when the peer ends before it. */
  async readThrough(delimiter: string): Promise<Buffer | null> {
    for (;;) {
      const at = this.#joined().indexOf(delimiter);
      if (at >= 0) return this.#take(at + delimiter.length);
      if (this.#ended) return null;
      await this.#news();
    }
  }

  /** Exactly so many bytes; null when the peer ends before that. */
  async readExactly(length: number): Promise<Buffer | null> {
    while (this.#length < length) {
      if (this.#ended) return null;
      await this.#news();
    }
    return this.#take(length);
  }

  /** At most so many of the bytes at hand, waiting for at least one; null at the end. */
  async readSome(lengthMax: number): Promise<Buffer | null> {
    return (await this.stirs()) ? this.#take(Math.min(lengthMax, this.#length)) : null;
  }

  #take(length: number): Buffer {
    const all = this.#joined();
    this.#chunks = length === all.length ? [] : [all.subarray(length)];
    this.#length -= length;
    return all.subarray(0, length);
  }

  #joined(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] ?? Buffer.alloc(0);
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #stir(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
