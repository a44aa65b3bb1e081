/** A stream of bytes, read in the lengths that its reader asks for. */
export class ByteReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #held: Uint8Array = new Uint8Array(0);

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** Exactly so many bytes, or null where the stream ends before. For small things only. */
  async take(length: number): Promise<Uint8Array | null> {
    const pieces: Uint8Array[] = [];
    const whole = await this.pass(length, (bytes) => void pieces.push(bytes.slice()));
    return whole ? Buffer.concat(pieces) : null;
  }

  /** Hands so many bytes on as they come; false where the stream ends before. */
  async pass(length: number, to: (bytes: Uint8Array) => Promise<void> | void): Promise<boolean> {
    for (let left = length; left > 0;) {
      if (this.#held.length === 0) {
        const { value, done } = await this.#reader.read();
        if (done) return false;
        this.#held = value;
      }
      const bytes = this.#held.subarray(0, left);
      this.#held = this.#held.subarray(bytes.length);
      left -= bytes.length;
      await to(bytes);
    }
    return true;
  }
}
