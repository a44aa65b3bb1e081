/** How far a JSON object has come that arrives in pieces. It tells where the object ends, and does not check what is inside of it. */
export class JsonProgress {
  /** `null`: only white space so far. False: it is something else than an object, and never complete. */
  isObject: boolean | null = null;
  isComplete = false;
  private depth = 0;
  private inString = false;
  private escaped = false;

  /** Takes the next piece, and gives the part of it that belongs to the object. */
  take(piece: string): string {
    if (this.isComplete) return "";
    if (this.isObject === null) {
      const first = piece.trimStart()[0];
      if (first === undefined) return piece;
      this.isObject = first === "{";
    }
    if (!this.isObject) return piece;
    const end = this.endIn(piece);
    if (end === -1) return piece;
    this.isComplete = true;
    return piece.slice(0, end);
  }

  /** The offset behind the brace that closes the object; -1 where that is not in this piece. */
  private endIn(piece: string): number {
    for (let at = 0; at < piece.length; at++) {
      const code = piece.charCodeAt(at);
      if (this.inString) {
        if (this.escaped) this.escaped = false;
        else if (code === backslash) this.escaped = true;
        else if (code === quote) this.inString = false;
      } else if (code === quote) this.inString = true;
      else if (code === openBrace || code === openBracket) this.depth++;
      else if ((code === closeBrace || code === closeBracket) && --this.depth === 0) return at + 1;
    }
    return -1;
  }
}

const quote = 0x22;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
