import { glueBetween, overlapSeam, plainSeam, seamTokensMax, tokensOf, withoutFirst, withoutLast } from "./seam.ts";
import { placedParts, withoutFirstItems, withoutLastItems } from "./times.ts";
import { summedReport } from "./usage.ts";
import type { TranscriptSegment, Transcript, TranscriptUsage, TranscriptWord } from "../transcript.ts";

/** The transcript of one part of a recording. Its times are relative to the part. */
export interface HeardPart {
  /** Seconds from the beginning of the recording. */
  readonly start: number;
  readonly end: number;
  /** How many seconds it shares with the previous part. */
  readonly overlap: number;
  /** The next part overlaps with it. */
  readonly goesOn: boolean;
  readonly transcript: Transcript;
}

/** Merges the transcripts of consecutive parts into that of the recording. */
export class MergedTranscript {
  readonly #knownSpeakers: ReadonlySet<string>;
  #parts = 0;
  /** The text that later parts cannot change, and the end of the last part, which the next part may replace. */
  #settled = "";
  #open = "";
  #segments: readonly TranscriptSegment[] | null = [];
  #words: readonly TranscriptWord[] | null = [];
  #segmentsGiven = 0;
  #end = 0;
  readonly #languages = new Map<string, number>();
  readonly #reports: (TranscriptUsage | null)[] = [];

  /** Speakers that the client named are the same in every part; all other labels are valid within one part only. */
  constructor(knownSpeakers: readonly string[] = []) {
    this.#knownSpeakers = new Set(knownSpeakers);
  }

  /** Adds the next part, and returns the text that is final now. All returned texts together are the whole text. */
  add(part: HeardPart): string {
    const { start, end, overlap, goesOn, transcript } = part;
    this.#parts += 1;
    this.#end = Math.max(this.#end, end);
    this.#reports.push(transcript.usage);
    const { language } = transcript;
    if (language !== null) this.#languages.set(language, (this.#languages.get(language) ?? 0) + end - start);

    const seam = overlap > 0 ? overlapSeam(this.#open, transcript.text) : plainSeam;
    const place = { start, end, speaker: (name: string | null) => this.#speaker(name) };
    const isSilent = transcript.text.trim() === "";
    // If one part has no list, the list of the recording would be incomplete, so there is none.
    const lengthened = <T extends TranscriptSegment | TranscriptWord>(
      list: readonly T[] | null,
      added: readonly T[] | null,
    ): readonly T[] | null => {
      const items = added ?? (isSilent ? [] : null);
      if (list === null || items === null) return null;
      const kept = withoutLastItems(list, seam.leftDrops);
      // Where parts overlap, times must not go back.
      const earliest = overlap > 0 ? Math.max(start, Math.min(kept.at(-1)?.end ?? 0, end)) : start;
      return [...kept, ...withoutFirstItems(placedParts(items, place), seam.rightDrops, earliest)];
    };
    this.#segments = lengthened(this.#segments, transcript.segments);
    this.#words = lengthened(this.#words, transcript.words);

    const left = withoutLast(this.#open, seam.leftDrops).trimEnd();
    const right = withoutFirst(transcript.text, seam.rightDrops).trim();
    const joined = left + glueBetween(left === "" ? this.#settled : left, right) + right;
    const certain = goesOn ? withoutLast(joined, seamTokensMax) : joined;
    this.#open = joined.slice(certain.length);
    this.#settled += certain;
    return certain;
  }

  /** The segments that are final and were not returned yet; null if a part has none. */
  takeSegments(): readonly TranscriptSegment[] | null {
    if (this.#segments === null) return null;
    let to = this.#segments.length;
    if (this.#open !== "") {
      for (let tokens = 0; to > this.#segmentsGiven && tokens < seamTokensMax; to--)
        tokens += tokensOf(this.#segments[to - 1]!.text).length;
    }
    const taken = this.#segments.slice(this.#segmentsGiven, to);
    this.#segmentsGiven = to;
    return taken;
  }

  /** The merged transcript, after the last part. */
  whole(): Transcript {
    return {
      text: this.#settled,
      language: longest(this.#languages),
      duration: Math.round(this.#end * 1000) / 1000,
      segments: this.#segments,
      words: this.#words,
      usage: summedReport(this.#reports),
    };
  }

  #speaker(name: string | null): string | null {
    return name === null || this.#knownSpeakers.has(name) ? name : `${name}${this.#parts}`;
  }
}

function longest(languages: ReadonlyMap<string, number>): string | null {
  let most: string | null = null;
  for (const [language, seconds] of languages) if (most === null || seconds > languages.get(most)!) most = language;
  return most;
}
