import { glueBetween, overlapSeam, plainSeam, seamTokensMax, tokensOf, withoutFirst, withoutLast } from "./seam.ts";
import { placedParts, withoutFirstItems, withoutLastItems } from "./times.ts";
import { summedReport } from "./usage.ts";
import type { TranscriptSegment, Transcript, TranscriptUsage, TranscriptWord } from "../transcript.ts";

/** What was heard in one part of a recording. Its transcript's times begin with the part. */
export interface HeardPart {
  /** Seconds from the beginning of the recording. */
  readonly start: number;
  readonly end: number;
  /** How much of it the part before holds too. */
  readonly overlap: number;
  /** The part after it overlaps with it. */
  readonly goesOn: boolean;
  readonly transcript: Transcript;
}

/** The transcript of a recording, put together of its parts in their order. */
export class MergedTranscript {
  readonly #knownSpeakers: ReadonlySet<string>;
  #parts = 0;
  /** What no later part can change, and behind it the end of the last part, which the next one may have heard better. */
  #settled = "";
  #open = "";
  #segments: readonly TranscriptSegment[] | null = [];
  #words: readonly TranscriptWord[] | null = [];
  #segmentsGiven = 0;
  #end = 0;
  readonly #languages = new Map<string, number>();
  readonly #reports: (TranscriptUsage | null)[] = [];

  /** Speakers whose names are the client's own mean the same in every part; all others are told apart within a part only. */
  constructor(knownSpeakers: readonly string[] = []) {
    this.#knownSpeakers = new Set(knownSpeakers);
  }

  /** Adds the next part and gives the text that is certain since then: all of these together are the text of the whole. */
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
    // A list that lacks what was said in one part would pass off the rest as all.
    const lengthened = <T extends TranscriptSegment | TranscriptWord>(
      list: readonly T[] | null,
      added: readonly T[] | null,
    ): readonly T[] | null => {
      const items = added ?? (isSilent ? [] : null);
      if (list === null || items === null) return null;
      const kept = withoutLastItems(list, seam.leftDrops);
      // Where parts overlap, what comes later in the text must not come first in time.
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

  /** The segments that are certain and were not given yet; null where a part has none. */
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

  /** The whole, after its last part. */
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
