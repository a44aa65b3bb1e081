/** A queue of bytes to be written, between `from` and `to`. The writer moves `from`, the producer moves `to`. */
export class WaitingBytes {
  bytes: Buffer;
  from = 0;
  to = 0;

  constructor(
    private readonly usualBytes: number,
    /** A larger buffer is not kept once the queue is empty. */
    private readonly keptBytes: number = usualBytes,
  ) {
    this.bytes = Buffer.allocUnsafe(usualBytes);
  }

  get length(): number {
    return this.to - this.from;
  }

  /** Makes room for `count` more bytes at the end. */
  makeRoom(count: number): void {
    if (this.to + count <= this.bytes.length) return;
    const held = this.length;
    const grown = Buffer.allocUnsafe(Math.max(this.usualBytes, (held + count) * 2));
    this.bytes.copy(grown, 0, this.from, this.to);
    this.bytes = grown;
    this.from = 0;
    this.to = held;
  }

  /** Empties the queue. */
  clear(): void {
    this.from = this.to = 0;
    if (this.bytes.length > this.keptBytes) this.bytes = Buffer.allocUnsafe(this.usualBytes);
  }
}
