/**
 * Joins the text of a second answer to what the client already has of a first one. Whether the second model went on
 * where the first broke off, repeated some of its last words or began again, the client must see each word once; and
 * if that cannot be told, it must not see a mixture. Models set white space as they like: it is not compared.
 */
export class ContinuationSeam {
  private heard = "";
  private resolved = false;
  /** What the client has, without white space, and what was heard so far. */
  private readonly had: string;
  private said = "";
  /** Where in `had` the second answer may have begun. */
  private places: readonly number[];
  private readonly asked: number;
  /** White space at the end of what the client has: the second answer may bring it once more. */
  private blanks: string;

  /**
   * `continues`: the second was given the text so far, and goes on from there. `repeats`: it was asked to say the end of it again,
   * or begins again, and has to.
   */
  constructor(
    delivered: string,
    private readonly expects: "continues" | "repeats",
  ) {
    this.had = solid(delivered);
    this.blanks = delivered.slice(delivered.trimEnd().length);
    this.asked = this.had.length - solid(endOf(delivered)).length;
    const overlap = expects === "repeats" ? verifiedMin : solidMin(delivered);
    this.places = placesIn(this.had, Math.min(overlap, this.had.length));
    if (this.had === "") this.resolved = true;
  }

  /** What of this text is new to the client (possibly nothing yet), or `differs` when the two answers cannot be joined. */
  push(text: string): string | "differs" {
    if (this.resolved) return this.fresh(text);
    this.heard += text;
    const from = this.said.length;
    this.said += solid(text);
    this.places = this.places.filter((place) => this.agrees(place, from));
    // What was asked for comes before what it might be as well.
    const place = this.expects === "repeats" && this.places.includes(this.asked) ? this.asked : this.places[0];
    if (place === undefined) return this.expects === "repeats" ? "differs" : this.resolve(0);
    const overlap = this.had.length - place;
    return overlap <= this.said.length ? this.resolve(overlap) : "";
  }

  /** The second answer is over: what was still held back because it might have been a repetition. */
  close(): string | "differs" {
    if (this.resolved) return "";
    // An answer that ended inside what the client already has said nothing new, and does not fit if it had to say it again.
    return this.expects === "repeats" ? "differs" : this.resolve(0);
  }

  /** Whether what was heard from there on is still what stands at this place, as far as both go. */
  private agrees(place: number, from: number): boolean {
    const { had, said } = this;
    const end = Math.min(said.length, had.length - place);
    for (let at = from; at < end; at++) if (had.charCodeAt(place + at) !== said.charCodeAt(at)) return false;
    return true;
  }

  private resolve(overlap: number): string {
    this.resolved = true;
    let at = 0;
    for (let left = overlap; left > 0; at++) if (!isBlank(this.heard, at)) left--;
    return this.fresh(this.heard.slice(at));
  }

  private fresh(text: string): string {
    let at = 0;
    while (this.blanks !== "" && at < text.length) {
      if (text[at] !== this.blanks[0]) this.blanks = "";
      else {
        this.blanks = this.blanks.slice(1);
        at++;
      }
    }
    return text.slice(at);
  }
}

/** The end of a text that a model is asked to repeat: forty characters, from the beginning of a word, and enough that are no space. */
export function endOf(text: string): string {
  const words = text.trimEnd();
  let from = Math.max(0, words.length - repeatedLength);
  for (let more = 0; more < wordMax && from > 0 && !isBlank(words, from - 1); more++) from--;
  for (let lacks = verifiedMin - solid(words.slice(from)).length; lacks > 0 && from > 0; from--) if (!isBlank(words, from - 1)) lacks--;
  // Not between the halves of a character.
  if (from > 0 && isLowSurrogate(words.charCodeAt(from))) from--;
  return words.slice(from).trimStart();
}

/** The longest overlap first. A second answer begins near the end of the first, or where that began. */
function placesIn(had: string, overlap: number): readonly number[] {
  const last = had.length - overlap;
  const first = Math.max(0, had.length - lookedAt);
  const places: number[] = first > 0 ? [0] : [];
  for (let place = first; place <= last; place++) places.push(place);
  return places;
}

/** Of an overlap that is long enough: spaces belong to its length, but must not be most of it. */
function solidMin(delivered: string): number {
  return Math.max(overlapMin - 2, solid(delivered.trimEnd().slice(-overlapMin)).length);
}

function solid(text: string): string {
  return text.replace(/\s+/g, "");
}

function isBlank(text: string, at: number): boolean {
  return /\s/.test(text[at]!);
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

/** Shorter coincidences are language, not repetition. */
const overlapMin = 8;
/** As much of what was to be repeated has to be there. */
const verifiedMin = 20;
const repeatedLength = 40;
const wordMax = 20;
const lookedAt = 512;
