/**
 * Joins the text of a second answer to what the client already has of a first one. The second model may continue where the first broke
 * off, repeat some of its last words, or begin again; the client must see each word once. If the two cannot be joined, it must not see a
 * mixture. White space is not compared, because models differ in it.
 */
export class ContinuationSeam {
  private received = "";
  private resolved = false;
  /** What the client has, and what the second answer has brought so far, both without white space. */
  private readonly known: string;
  private receivedSolid = "";
  /** Where in `known` the second answer may have begun. */
  private places: readonly number[];
  private readonly requestedPlace: number;
  /** White space at the end of what the client has, which the second answer may repeat. */
  private trailingSpace: string;

  /** `continues`: the second model goes on after the text so far. `repeats`: it has to repeat the end of the text, or begin again. */
  constructor(
    delivered: string,
    private readonly expects: "continues" | "repeats",
  ) {
    this.known = solid(delivered);
    this.trailingSpace = delivered.slice(delivered.trimEnd().length);
    this.requestedPlace = this.known.length - solid(endOf(delivered)).length;
    const overlap = expects === "repeats" ? verifiedMin : solidMin(delivered);
    this.places = placesIn(this.known, Math.min(overlap, this.known.length));
    if (this.known === "") this.resolved = true;
  }

  /** The part of this text that is new to the client (possibly nothing yet), or `differs` if the two answers cannot be joined. */
  push(text: string): string | "differs" {
    if (this.resolved) return this.fresh(text);
    this.received += text;
    const from = this.receivedSolid.length;
    this.receivedSolid += solid(text);
    this.places = this.places.filter((place) => this.agrees(place, from));
    // The place that the model was asked to repeat from goes before other possible ones.
    const place = this.expects === "repeats" && this.places.includes(this.requestedPlace) ? this.requestedPlace : this.places[0];
    if (place === undefined) return this.expects === "repeats" ? "differs" : this.resolve(0);
    const overlap = this.known.length - place;
    return overlap <= this.receivedSolid.length ? this.resolve(overlap) : "";
  }

  /** The second answer has ended: returns what was held back because it might have been a repetition. */
  close(): string | "differs" {
    if (this.resolved) return "";
    // An answer that ended inside the known text brought nothing new; if it had to repeat the text, it did not.
    return this.expects === "repeats" ? "differs" : this.resolve(0);
  }

  /** Whether the new text from `from` on matches the known text at this place, as far as both go. */
  private agrees(place: number, from: number): boolean {
    const { known, receivedSolid } = this;
    const end = Math.min(receivedSolid.length, known.length - place);
    for (let at = from; at < end; at++) if (known.charCodeAt(place + at) !== receivedSolid.charCodeAt(at)) return false;
    return true;
  }

  private resolve(overlap: number): string {
    this.resolved = true;
    let at = 0;
    for (let left = overlap; left > 0; at++) if (!isBlank(this.received, at)) left--;
    return this.fresh(this.received.slice(at));
  }

  private fresh(text: string): string {
    let at = 0;
    while (this.trailingSpace !== "" && at < text.length) {
      if (text[at] !== this.trailingSpace[0]) this.trailingSpace = "";
      else {
        this.trailingSpace = this.trailingSpace.slice(1);
        at++;
      }
    }
    return text.slice(at);
  }
}

/** The end of a text that a model is asked to repeat: about forty characters from the beginning of a word, not mostly white space. */
export function endOf(text: string): string {
  const words = text.trimEnd();
  let from = Math.max(0, words.length - repeatedLength);
  for (let more = 0; more < wordMax && from > 0 && !isBlank(words, from - 1); more++) from--;
  for (let lacks = verifiedMin - solid(words.slice(from)).length; lacks > 0 && from > 0; from--) if (!isBlank(words, from - 1)) lacks--;
  // Not inside a surrogate pair.
  if (from > 0 && isLowSurrogate(words.charCodeAt(from))) from--;
  return words.slice(from).trimStart();
}

/** Possible overlaps, the longest first. A second answer begins near the end of the first, or at its beginning. */
function placesIn(known: string, overlap: number): readonly number[] {
  const last = known.length - overlap;
  const first = Math.max(0, known.length - lookedAt);
  const places: number[] = first > 0 ? [0] : [];
  for (let place = first; place <= last; place++) places.push(place);
  return places;
}

/** The least number of characters other than spaces in an overlap: spaces count for its length, but must not be most of it. */
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

/** A shorter match may be a coincidence. */
const overlapMin = 8;
/** At least this much of the requested repetition must match. */
const verifiedMin = 20;
const repeatedLength = 40;
const wordMax = 20;
const lookedAt = 512;
