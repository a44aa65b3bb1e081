/** Reads a byte stream in the lengths that the caller asks for. */
export class ByteReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #held: Uint8Array = new Uint8Array(0);

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** Reads exactly `length` bytes, or null when the stream ends before. They are held in memory. */
  async take(length: number): Promise<Uint8Array | null> {
    const pieces: Uint8Array[] = [];
    const whole = await this.pass(length, (bytes) => void pieces.push(bytes.slice()));
    return whole ? Buffer.concat(pieces) : null;
  }

  /** Passes `length` bytes on as they come; false when the stream ends before. */
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
