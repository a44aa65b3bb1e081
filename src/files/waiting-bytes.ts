/** Bytes that wait to be written, in their order: they lie between `from` and `to`. Whoever writes moves `from`, whoever adds moves `to`. */
export class WaitingBytes {
  bytes: Buffer;
  from = 0;
  to = 0;

  constructor(
    private readonly usualBytes: number,
    /** A memory that is larger than this is not kept when nothing waits any more. */
    private readonly keptBytes: number = usualBytes,
  ) {
    this.bytes = Buffer.allocUnsafe(usualBytes);
  }

  get length(): number {
    return this.to - this.from;
  }

  /** For so many more behind those that are there. */
  makeRoom(count: number): void {
    if (this.to + count <= this.bytes.length) return;
    const held = this.length;
    const grown = Buffer.allocUnsafe(Math.max(this.usualBytes, (held + count) * 2));
    this.bytes.copy(grown, 0, this.from, this.to);
    this.bytes = grown;
    this.from = 0;
    this.to = held;
  }

  /** Nothing waits any more. */
  clear(): void {
    this.from = this.to = 0;
    if (this.bytes.length > this.keptBytes) this.bytes = Buffer.allocUnsafe(this.usualBytes);
  }
}
