import type { Candidate } from "../../channels/channel.ts";
import type { FewerBetas } from "../../dialects/dialect.ts";
import { optionalField, type OptionalField } from "../../operations/conversation/optional-fields.ts";
import { betasParam, effortParam, signedParam, type Failure } from "../../operations/failure.ts";
import { BoundedMap } from "./bounded-map.ts";

/** What is no longer sent to a deployment, because it rejected it. */
export interface Lesson {
  readonly ceiling: number | null;
  readonly streamOptions: boolean;
  /** Whether it accepts `srt` and `vtt`. */
  readonly subtitles: boolean;
  /** The reasoning of earlier turns is left out, because it does not take their signatures. */
  readonly withoutReasoning?: true;
  /** What it refused of requests that the gateway translated. */
  readonly refusedFields?: readonly OptionalField[];
  /** Of the beta features that clients name, it gets fewer; absent: all. */
  readonly betas?: FewerBetas;
}

/** What a call learned from one rejection. */
export interface CallLesson extends Lesson {
  /** Other calls use it too, once this call has succeeded with it. */
  readonly shared: boolean;
}

export const nothingLearned: Lesson = { ceiling: null, streamOptions: true, subtitles: true };

/**
 * What a rejection says about its deployment; null if nothing. If it may be an echo of the request, or names an implausible limit,
 * only the call itself uses it.
 */
export function lessonIn({ kind, ceiling, param }: Failure, askedTokens: number, isEcho: boolean): CallLesson | null {
  // A limit that would not have rejected this request is not what it seems.
  if (kind === "ceiling" && ceiling !== null && ceiling < askedTokens) {
    return { ...nothingLearned, ceiling, shared: !isEcho && ceiling >= ceilingMin };
  }
  if (kind === "unsupported" && param === "stream_options") return { ...nothingLearned, streamOptions: false, shared: !isEcho };
  return null;
}

/**
 * The deployment does not produce subtitles, so they are rendered from a format with times. If it transcribed and returned another
 * format, that does not depend on the client's words, and other calls may use it.
 */
export function subtitlesLesson({ kind, param, served }: Failure): CallLesson | null {
  if (kind !== "unsupported" || param !== "response_format") return null;
  return { ...nothingLearned, subtitles: false, shared: served === true };
}

/**
 * The deployment does not take the signature of a thought that it or another one made: the conversation was changed, or the thought is of
 * another account. The same request fails again and again, and without the thoughts it does not. That holds for this conversation alone.
 */
export function signatureLesson({ kind, param }: Failure, before: CallLesson | null): CallLesson | null {
  if (kind !== "unsupported" || param !== signedParam || before?.withoutReasoning === true) return null;
  return { ...nothingLearned, withoutReasoning: true, shared: false };
}

/**
 * The deployment refuses something of a translated request that its answer can do without. The client asked for it in another API, where it
 * is taken; many agents ask every model to reason. That a model does not know one of the efforts says nothing about the others.
 */
export function fieldLesson({ kind, param, code }: Failure, before: CallLesson | null, isEcho: boolean): CallLesson | null {
  const field = kind === "unsupported" && param !== null ? optionalField(param) : null;
  if (field === null || before?.refusedFields?.includes(field) === true) return null;
  const isOneValue = field === effortParam && code === "unsupported_value";
  return { ...nothingLearned, refusedFields: [field], shared: !isEcho && !isOneValue };
}

/** The deployment does not know a beta feature that the client names: `fewer` says how many can be left out, and null that none can. */
export function betasLesson({ kind, param }: Failure, fewer: FewerBetas | null, isEcho: boolean): CallLesson | null {
  if (kind !== "unsupported" || param !== betasParam || fewer === null) return null;
  return { ...nothingLearned, betas: fewer, shared: !isEcho };
}

/** Both lessons combined. */
export function together<One extends Lesson>(one: One, other: Lesson | null): One {
  if (other === null) return one;
  return {
    ...one,
    ceiling: lower(one.ceiling, other.ceiling),
    streamOptions: one.streamOptions && other.streamOptions,
    subtitles: one.subtitles && other.subtitles,
    ...(one.withoutReasoning === true || other.withoutReasoning === true ? { withoutReasoning: true } : undefined),
    ...allFields(one.refusedFields, other.refusedFields),
    ...fewest(one.betas, other.betas),
  };
}

type RefusedFields = Lesson["refusedFields"];

function allFields(one: RefusedFields, other: RefusedFields): { readonly refusedFields: readonly OptionalField[] } | undefined {
  if (one === undefined && other === undefined) return undefined;
  return { refusedFields: [...new Set([...(one ?? []), ...(other ?? [])])] };
}

function fewest(one: FewerBetas | undefined, other: FewerBetas | undefined): { readonly betas: FewerBetas } | undefined {
  const betas = one === "none" || other === "none" ? "none" : (one ?? other);
  return betas === undefined ? undefined : { betas };
}

export function lower(a: number | null, b: number | null): number | null {
  if (a === null) return b;
  return b === null ? a : Math.min(a, b);
}

/** The cause of a hint to other processes: forget the lessons of this channel. */
export const forgetLessons = "forget_lessons";

/** No usable model has a lower limit, and a lower figure would truncate every answer. */
const ceilingMin = 256;
/** Lessons expire after an hour, because upstreams change. */
const lessonMs = 3_600_000;

/** Lessons by deployment, used by every call for an hour. */
export class Lessons {
  private readonly known: BoundedMap<string, Learned>;

  constructor(
    entriesMax: number,
    private readonly nowMs: () => number,
    isProtected: (deployment: string) => boolean,
  ) {
    this.known = new BoundedMap(entriesMax, () => {}, isProtected);
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
      ...(learned.fieldsUntilMs > nowMs ? { refusedFields: learned.refusedFields } : undefined),
      ...(learned.betas !== null && learned.betasUntilMs > nowMs ? { betas: learned.betas } : undefined),
    };
  }

  /** A call succeeded with a lesson. Returns what is new; null if nothing is, or if it may not be shared. */
  confirmed({ deployment }: Candidate, lesson: CallLesson): LearnedFact | null {
    if (!lesson.shared) return null;
    const untilMs = this.nowMs() + lessonMs;
    const before = this.known.get(deployment.id) ?? { ...nothingStored, channel: deployment.channel.name, model: deployment.model };
    this.known.set(deployment.id, {
      ...before,
      ...(lesson.ceiling !== null && { ceiling: lesson.ceiling, ceilingUntilMs: untilMs }),
      ...(!lesson.streamOptions && { streamOptionsUntilMs: untilMs }),
      ...(!lesson.subtitles && { subtitlesUntilMs: untilMs }),
      ...(lesson.refusedFields !== undefined && { ...allFields(lesson.refusedFields, before.refusedFields), fieldsUntilMs: untilMs }),
      ...(lesson.betas !== undefined && { betas: lesson.betas, betasUntilMs: untilMs }),
    });
    const { channel, model } = before;
    return { channel, model, maxTokens: lesson.ceiling, unsupported: unsupportedBy(lesson), forMs: lessonMs };
  }

  /** The lessons of a channel's deployments that are valid now. */
  ofChannel(channel: string): readonly LearnedFact[] {
    const nowMs = this.nowMs();
    return [...this.known.values()].filter((one) => one.channel === channel).flatMap((one) => factsOf(one, nowMs));
  }

  /** Forgets the lessons of a channel. Returns how many there were. */
  forget(channel: string): number {
    const count = this.ofChannel(channel).length;
    for (const [id, learned] of this.known) if (learned.channel === channel) this.known.delete(id);
    return count;
  }
}

export interface LearnedFact {
  readonly channel: string;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The highest number of output tokens that is requested from it. */
  readonly maxTokens: number | null;
  /** What is not sent to it: an option that the gateway adds or translates, or formats that are rendered from another one. */
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
  readonly refusedFields: readonly OptionalField[];
  readonly fieldsUntilMs: number;
  readonly betas: FewerBetas | null;
  readonly betasUntilMs: number;
}

const nothingStored = {
  ...{ ceiling: null, ceilingUntilMs: -Infinity, streamOptionsUntilMs: -Infinity },
  ...{ subtitlesUntilMs: -Infinity, refusedFields: [], fieldsUntilMs: -Infinity, betas: null, betasUntilMs: -Infinity },
};

const subtitleFormats = "response_format: srt, vtt";

const betaFeatures: Readonly<Record<FewerBetas, string>> = { known: "most beta features", none: "beta features" };

function unsupportedBy({ streamOptions, subtitles, refusedFields, betas }: Lesson): string | null {
  if (!subtitles) return subtitleFormats;
  if (betas !== undefined) return betaFeatures[betas];
  if (refusedFields !== undefined) return refusedFields.join(", ");
  return streamOptions ? null : "stream_options";
}

function factsOf(
  {
    channel,
    model,
    ceiling,
    ceilingUntilMs,
    streamOptionsUntilMs,
    subtitlesUntilMs,
    refusedFields,
    fieldsUntilMs,
    betas,
    betasUntilMs,
  }: Learned,
  nowMs: number,
): readonly LearnedFact[] {
  const facts: LearnedFact[] = [];
  if (ceilingUntilMs > nowMs) facts.push({ channel, model, maxTokens: ceiling, unsupported: null, forMs: ceilingUntilMs - nowMs });
  if (streamOptionsUntilMs > nowMs)
    facts.push({ channel, model, maxTokens: null, unsupported: "stream_options", forMs: streamOptionsUntilMs - nowMs });
  if (subtitlesUntilMs > nowMs)
    facts.push({ channel, model, maxTokens: null, unsupported: subtitleFormats, forMs: subtitlesUntilMs - nowMs });
  if (fieldsUntilMs > nowMs)
    facts.push({ channel, model, maxTokens: null, unsupported: refusedFields.join(", "), forMs: fieldsUntilMs - nowMs });
  if (betas !== null && betasUntilMs > nowMs)
    facts.push({ channel, model, maxTokens: null, unsupported: betaFeatures[betas], forMs: betasUntilMs - nowMs });
  return facts;
}
