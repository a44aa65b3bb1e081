import type { Output } from "../emission.ts";

/**
 * Consecutive deltas that differ in nothing but their text, as one emission for all events that arrived together. The text is plain
 * ASCII, and is decoded only when it is needed.
 */
export class DeltaRun {
  readonly kind = "delta";
  readonly finishes = false;
  /** Where the text of each event begins and ends. */
  private readonly places: number[] = [];
  /** Where the next event has to begin: the run is relayed as one range of bytes. */
  end: number;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly start: number,
    readonly output: Output,
    /** The text is content; otherwise it is reasoning. */
    private readonly isContent: boolean,
  ) {
    this.end = start;
  }

  /** Adds the event that ends at `end`, with its text in [from, to). */
  add(from: number, to: number, end: number): void {
    this.places.push(from, to);
    this.end = end;
  }

  get frame(): Uint8Array {
    return this.start === 0 && this.end === this.bytes.length ? this.bytes : this.bytes.subarray(this.start, this.end);
  }

  /** The number of events. */
  get count(): number {
    return this.places.length / 2;
  }

  get text(): string {
    const { places, bytes } = this;
    let text = "";
    for (let at = 0; this.isContent && at < places.length; at += 2) text += decoder.decode(bytes.subarray(places[at], places[at + 1]));
    return text;
  }

  /** The text of one event, content or reasoning. */
  wordsAt(index: number): string {
    return decoder.decode(this.bytes.subarray(this.places[2 * index], this.places[2 * index + 1]));
  }

  /** The length of the content in bytes. */
  get wordBytes(): number {
    let bytes = 0;
    for (let at = 0; this.isContent && at < this.places.length; at += 2) bytes += this.places[at + 1]! - this.places[at]!;
    return bytes;
  }

  /** Copies the content into a buffer. Returns where it ends there. */
  copyWords(into: Uint8Array, start: number): number {
    const { places, bytes } = this;
    let end = start;
    for (let at = 0; this.isContent && at < places.length; at += 2) {
      for (let place = places[at]!; place < places[at + 1]!; place++) into[end++] = bytes[place]!;
    }
    return end;
  }

  /** The sum of the weights of all characters, content or reasoning. */
  weight(weights: Uint8Array): number {
    const { places, bytes } = this;
    let weight = 0;
    for (let at = 0; at < places.length; at += 2) {
      for (let place = places[at]!; place < places[at + 1]!; place++) weight += weights[bytes[place]!]!;
    }
    return weight;
  }

  /** Splits it into a run for each event. */
  split(): readonly DeltaRun[] {
    const runs: DeltaRun[] = [];
    let { start } = this;
    for (let at = 0; at < this.places.length; at += 2) {
      const one = new DeltaRun(this.bytes, start, this.output, this.isContent);
      const last = at + 2 === this.places.length;
      start = last ? this.end : this.frameEnd(this.places[at + 1]!);
      one.add(this.places[at]!, this.places[at + 1]!, start);
      runs.push(one);
    }
    return runs;
  }

  /** Every frame ends with a blank line, and has none inside. */
  private frameEnd(from: number): number {
    let at = from;
    while (this.bytes[at] !== lineFeed || this.bytes[at + 1] !== lineFeed) at++;
    return at + 2;
  }
}

const decoder = new TextDecoder();
const lineFeed = 10;
