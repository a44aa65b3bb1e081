/** The end of what somebody says, however much that is. */
export class Tail {
  private kept = Buffer.alloc(0);

  add(bytes: Uint8Array): void {
    this.kept = Buffer.from(Buffer.concat([this.kept, bytes.subarray(-tailBytesMax)]).subarray(-tailBytesMax));
  }

  /** On one line, ready for a log. */
  get text(): string {
    return this.kept.toString("utf8").replace(unprintable, " ").trim();
  }
}

const tailBytesMax = 2048;
const unprintable = /[\p{Cc}\p{Cf}\ufffd\s]+/gu;
