/** Cuts what comes into lines. A line beyond the bound is dropped: nothing we wait for is that long. */
export class Lines {
  private readonly decoder = new TextDecoder();
  private rest = "";
  private isTooLong = false;

  constructor(private readonly line: (text: string) => void) {}

  add(bytes: Uint8Array): void {
    const pieces = this.decoder.decode(bytes, { stream: true }).split("\n");
    const last = pieces.pop() ?? "";
    for (const piece of pieces) {
      this.take(piece);
      if (!this.isTooLong) this.line(this.rest);
      this.rest = "";
      this.isTooLong = false;
    }
    this.take(last);
  }

  private take(piece: string): void {
    this.isTooLong ||= this.rest.length + piece.length > lineMax;
    this.rest = this.isTooLong ? "" : this.rest + piece;
  }
}

const lineMax = 16 * 1024;
