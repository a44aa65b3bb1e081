/**
 * Joins the text of a second answer to what the client already has of a first one. Whether the second model went on
 * where the first broke off, repeated some of its last words or began again, the client must see each word once; and
 * if that cannot be told, it must not see a mixture.
 */
export class Seam {
  private heard = "";
  private resolved = false;

  /** `continues`: the second was given the text so far. `repeats`: it starts over and has to say the same again. */
  constructor(
    private readonly delivered: string,
    private readonly expects: "continues" | "repeats",
  ) {}

  /** What of this text is new to the client (possibly nothing yet), or `differs` when the two answers cannot be joined. */
  push(text: string): string | "differs" {
    if (this.resolved) return text;
    this.heard += text;
    return this.expects === "repeats" ? this.afterRepetition() : this.afterOverlap();
  }

  /** The second answer is over: what was still held back because it might have been a repetition. */
  close(): string | "differs" {
    if (this.resolved) return "";
    this.resolved = true;
    // An answer that ended inside what the client already has said nothing new, and contradicts it if it was a restart.
    if (this.expects === "repeats") return this.heard === this.delivered ? "" : "differs";
    return this.heard;
  }

  private afterRepetition(): string | "differs" {
    const { delivered, heard } = this;
    if (heard.length < delivered.length) return delivered.startsWith(heard) ? "" : "differs";
    if (!heard.startsWith(delivered)) return "differs";
    this.resolved = true;
    return heard.slice(delivered.length);
  }

  /** Looks for the longest end of the delivered text that the new text begins with, and waits while one may still grow. */
  private afterOverlap(): string {
    const { delivered, heard } = this;
    for (let from = 0; from <= delivered.length - overlapMin; from++) {
      const overlap = delivered.length - from;
      if (overlap <= heard.length) {
        if (heard.startsWith(delivered.slice(from))) return this.resolve(overlap);
      } else if (delivered.startsWith(heard, from)) {
        return "";
      }
    }
    return this.resolve(0);
  }

  private resolve(overlap: number): string {
    this.resolved = true;
    return this.heard.slice(overlap);
  }
}

/** Shorter coincidences are language, not repetition. */
const overlapMin = 8;
