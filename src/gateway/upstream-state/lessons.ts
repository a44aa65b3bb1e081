import type { Candidate } from "../../channels/channel.ts";
import type { Failure } from "../../operations/failure.ts";
import { BoundedMap } from "./bounded-map.ts";

/** What a deployment is asked for no more, because it refused it. */
export interface Lesson {
  readonly ceiling: number | null;
  readonly streamOptions: boolean;
  /** Whether it may be asked for `srt` and `vtt`. */
  readonly subtitles: boolean;
}

/** What one refusal taught the call that it came to. */
export interface CallLesson extends Lesson {
  /** Others may be held to it too, once the call was served by it. */
  readonly shared: boolean;
}

export const nothingLearned: Lesson = { ceiling: null, streamOptions: true, subtitles: true };

/**
 * What a refusal says about its deployment; null where it says nothing of the kind. One that may be an echo of the request, or a
 * figure that hardly any model has, is good for the call itself and for nobody else.
 */
export function lessonIn({ kind, ceiling, param }: Failure, askedTokens: number, isEcho: boolean): CallLesson | null {
  // A figure that would not have helped this very request says something else than it seems to.
  if (kind === "ceiling" && ceiling !== null && ceiling < askedTokens) {
    return { ...nothingLearned, ceiling, shared: !isEcho && ceiling >= ceilingMin };
  }
  if (kind === "unsupported" && param === "stream_options") return { ...nothingLearned, streamOptions: false, shared: !isEcho };
  return null;
}

/**
 * Subtitles were asked for and cannot be had in this way: then they are made of a format with times. An upstream that transcribed
 * and gave something else is not told so by the client's words, so others need not find it out again.
 */
export function subtitlesLesson({ kind, param, served }: Failure): CallLesson | null {
  if (kind !== "unsupported" || param !== "response_format") return null;
  return { ...nothingLearned, subtitles: false, shared: served === true };
}

/** Both of them. */
export function together<One extends Lesson>(one: One, other: Lesson | null): One {
  if (other === null) return one;
  return {
    ...one,
    ceiling: lower(one.ceiling, other.ceiling),
    streamOptions: one.streamOptions && other.streamOptions,
    subtitles: one.subtitles && other.subtitles,
  };
}

export function lower(a: number | null, b: number | null): number | null {
  if (a === null) return b;
  return b === null ? a : Math.min(a, b);
}

/** The cause of a hint to other processes that says: forget what the channel in its scope taught you. */
export const forgetLessons = "forget_lessons";

/** Models that give less are none that anybody uses; a lower figure would cut the answers of everyone. */
const ceilingMin = 256;
/** Upstreams change. */
const lessonMs = 3_600_000;

/** What refusals taught, by deployment: for an hour, and of use to every call. */
export class Lessons {
  private readonly known: BoundedMap<string, Learned>;

  constructor(
    entriesMax: number,
    private readonly nowMs: () => number,
    isKept: (deployment: string) => boolean,
  ) {
    this.known = new BoundedMap(entriesMax, () => {}, isKept);
  }

  of({ deployment }: Candidate): Lesson {
    if (this.known.size === 0) return nothingLearned;
    const learned = this.known.get(deployment.id);
    if (learned === undefined) return nothingLearned;
    const nowMs = this.nowMs();
    return {
      ceiling: learned.ceilingUntilMs > nowMs ? learned.ceiling : null,
      streamOptions: learned.streamOptionsUntilMs <= nowMs,
      subtitles: learned.subtitlesUntilMs <= nowMs,
    };
  }

  /** A call was served by what a refusal had taught it. Returns what is new of it; null where nothing is, or nobody else may know. */
  confirmed({ deployment }: Candidate, lesson: CallLesson): LearnedFact | null {
    if (!lesson.shared) return null;
    const untilMs = this.nowMs() + lessonMs;
    const before = this.known.get(deployment.id) ?? { ...untaught, channel: deployment.channel.name, model: deployment.model };
    this.known.set(deployment.id, {
      ...before,
      ...(lesson.ceiling !== null && { ceiling: lesson.ceiling, ceilingUntilMs: untilMs }),
      ...(!lesson.streamOptions && { streamOptionsUntilMs: untilMs }),
      ...(!lesson.subtitles && { subtitlesUntilMs: untilMs }),
    });
    const { channel, model } = before;
    return { channel, model, maxTokens: lesson.ceiling, unsupported: unsupportedBy(lesson), forMs: lessonMs };
  }

  /** What is known of a channel's deployments at this moment. */
  ofChannel(channel: string): readonly LearnedFact[] {
    const nowMs = this.nowMs();
    return [...this.known.values()].filter((one) => one.channel === channel).flatMap((one) => factsOf(one, nowMs));
  }

  /** As if nothing had ever been learned of a channel. Returns how much it was. */
  forget(channel: string): number {
    const count = this.ofChannel(channel).length;
    for (const [id, learned] of this.known) if (learned.channel === channel) this.known.delete(id);
    return count;
  }
}

export interface LearnedFact {
  readonly channel: string;
  /** The upstream's name of it. */
  readonly model: string;
  /** The most output tokens that it is asked for. */
  readonly maxTokens: number | null;
  /** What it is not sent: an option of the gateway's own accord, or formats that are then made of another one. */
  readonly unsupported: string | null;
  readonly forMs: number;
}

interface Learned {
  readonly channel: string;
  readonly model: string;
  readonly ceiling: number | null;
  readonly ceilingUntilMs: number;
  readonly streamOptionsUntilMs: number;
  readonly subtitlesUntilMs: number;
}

const untaught = { ceiling: null, ceilingUntilMs: -Infinity, streamOptionsUntilMs: -Infinity, subtitlesUntilMs: -Infinity };

const subtitleFormats = "response_format: srt, vtt";

function unsupportedBy({ streamOptions, subtitles }: Lesson): string | null {
  if (!subtitles) return subtitleFormats;
  return streamOptions ? null : "stream_options";
}

function factsOf(
  { channel, model, ceiling, ceilingUntilMs, streamOptionsUntilMs, subtitlesUntilMs }: Learned,
  nowMs: number,
): readonly LearnedFact[] {
  const facts: LearnedFact[] = [];
  if (ceilingUntilMs > nowMs) facts.push({ channel, model, maxTokens: ceiling, unsupported: null, forMs: ceilingUntilMs - nowMs });
  if (streamOptionsUntilMs > nowMs)
    facts.push({ channel, model, maxTokens: null, unsupported: "stream_options", forMs: streamOptionsUntilMs - nowMs });
  if (subtitlesUntilMs > nowMs)
    facts.push({ channel, model, maxTokens: null, unsupported: subtitleFormats, forMs: subtitlesUntilMs - nowMs });
  return facts;
}
