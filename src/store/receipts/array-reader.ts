/** The elements of an array, one after the other, each of the type that was asked for or else none of it is believed. */
export class Parts {
  private readonly parts: readonly unknown[];
  private at = 0;

  constructor(parts: unknown) {
    if (!Array.isArray(parts)) throw wrongShape();
    this.parts = parts;
  }

  next(): unknown {
    return this.parts[this.at++];
  }

  text(): string {
    const part = this.next();
    if (typeof part !== "string") throw wrongShape();
    return part;
  }

  maybeText(): string | null {
    const part = this.next();
    if (part !== null && typeof part !== "string") throw wrongShape();
    return part;
  }

  /** At the end, where some lines have it. */
  lastText(): string | null {
    return this.at < this.parts.length ? this.maybeText() : null;
  }

  number(): number {
    const part = this.next();
    if (typeof part !== "number") throw wrongShape();
    return part;
  }

  maybeNumber(): number | null {
    const part = this.next();
    if (part !== null && typeof part !== "number") throw wrongShape();
    return part;
  }

  flag(): boolean {
    const part = this.next();
    if (typeof part !== "boolean") throw wrongShape();
    return part;
  }

  oneOf<T extends string>(known: readonly T[]): T {
    const part = this.next();
    // The first of them is nearly always the one.
    for (const word of known) if (word === part) return word;
    throw wrongShape();
  }

  maybeOneOf<T extends string>(known: readonly T[]): T | null {
    if (this.parts[this.at] !== null) return this.oneOf(known);
    this.at += 1;
    return null;
  }

  list(): readonly unknown[] {
    const part = this.next();
    if (!Array.isArray(part)) throw wrongShape();
    return part;
  }
}

function wrongShape(): TypeError {
  return new TypeError("a line of the journal has another shape than this version writes");
}
