/** The elements of an array, one after the other, each of the type that was asked for or else none of it is believed. */
export class ArrayReader {
  private readonly elements: readonly unknown[];
  private at = 0;

  constructor(elements: unknown) {
    if (!Array.isArray(elements)) throw wrongShape();
    this.elements = elements;
  }

  next(): unknown {
    return this.elements[this.at++];
  }

  text(): string {
    const element = this.next();
    if (typeof element !== "string") throw wrongShape();
    return element;
  }

  maybeText(): string | null {
    const element = this.next();
    if (element !== null && typeof element !== "string") throw wrongShape();
    return element;
  }

  /** At the end, where some lines have it. */
  lastText(): string | null {
    return this.at < this.elements.length ? this.maybeText() : null;
  }

  number(): number {
    const element = this.next();
    if (typeof element !== "number") throw wrongShape();
    return element;
  }

  maybeNumber(): number | null {
    const element = this.next();
    if (element !== null && typeof element !== "number") throw wrongShape();
    return element;
  }

  flag(): boolean {
    const element = this.next();
    if (typeof element !== "boolean") throw wrongShape();
    return element;
  }

  oneOf<T extends string>(known: readonly T[]): T {
    const element = this.next();
    // The first of them is nearly always the one.
    for (const word of known) if (word === element) return word;
    throw wrongShape();
  }

  maybeOneOf<T extends string>(known: readonly T[]): T | null {
    if (this.elements[this.at] !== null) return this.oneOf(known);
    this.at += 1;
    return null;
  }

  list(): readonly unknown[] {
    const element = this.next();
    if (!Array.isArray(element)) throw wrongShape();
    return element;
  }
}

function wrongShape(): TypeError {
  return new TypeError("a line of the journal has another shape than this version writes");
}
