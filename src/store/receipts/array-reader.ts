/** Reads the elements of an array in order, and throws if one does not have the expected type. */
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

  /** An optional last element, which not all lines have. */
  lastText(): string | null {
    return this.at < this.elements.length ? this.maybeText() : null;
  }

  lastNumber(): number | null {
    return this.at < this.elements.length ? this.maybeNumber() : null;
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
    // Nearly always it is the first one.
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
  return new TypeError("this journal line has a shape that this version does not know");
}
