import type { Output } from "../emission.ts";

/**
 * Deltas in a row that differ in nothing but their words, as those of a chat do: one emission for as many events as came
 * together. The words are plain ASCII, and are decoded from the bytes they came in only when they are asked for.
 */
export class DeltaRun {
  readonly kind = "delta";
  readonly finishes = false;
  /** Where the words of each event begin and end. */
  private readonly places: number[] = [];
  /** Where the next event has to begin: a gap would be lost. */
  end: number;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly start: number,
    readonly output: Output,
    /** The words are said; otherwise they are only thought. */
    private readonly said: boolean,
  ) {
    this.end = start;
  }

  /** The next event ends at `end`, and its words lie between two places. */
  add(from: number, to: number, end: number): void {
    this.places.push(from, to);
    this.end = end;
  }

  get frame(): Uint8Array {
    return this.start === 0 && this.end === this.bytes.length ? this.bytes : this.bytes.subarray(this.start, this.end);
  }

  /** How many events it stands for. */
  get count(): number {
    return this.places.length / 2;
  }

  get text(): string {
    const { places, bytes } = this;
    let text = "";
    for (let at = 0; this.said && at < places.length; at += 2) text += decoder.decode(bytes.subarray(places[at], places[at + 1]));
    return text;
  }

  /** The words of one event, said or only thought. */
  wordsAt(index: number): string {
    return decoder.decode(this.bytes.subarray(this.places[2 * index], this.places[2 * index + 1]));
  }

  /** How many bytes the words have that are said. */
  get wordBytes(): number {
    let bytes = 0;
    for (let at = 0; this.said && at < this.places.length; at += 2) bytes += this.places[at + 1]! - this.places[at]!;
    return bytes;
  }

  /** Puts the words that are said into a buffer, one after the other. Returns where they end there. */
  copyWords(into: Uint8Array, start: number): number {
    const { places, bytes } = this;
    let end = start;
    for (let at = 0; this.said && at < places.length; at += 2) {
      for (let place = places[at]!; place < places[at + 1]!; place++) into[end++] = bytes[place]!;
    }
    return end;
  }

  /** The sum of what each character of the words weighs, said or only thought. */
  weight(weights: Uint8Array): number {
    const { places, bytes } = this;
    let weight = 0;
    for (let at = 0; at < places.length; at += 2) {
      for (let place = places[at]!; place < places[at + 1]!; place++) weight += weights[bytes[place]!]!;
    }
    return weight;
  }

  /** The same as a run for each event. */
  split(): readonly DeltaRun[] {
    const runs: DeltaRun[] = [];
    let { start } = this;
    for (let at = 0; at < this.places.length; at += 2) {
      const one = new DeltaRun(this.bytes, start, this.output, this.said);
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
