import type { MeteredUsage } from "../../operations/usage.ts";
import type { CallFacts } from "../call.ts";
import type { CallRecord } from "../settlement/record.ts";

/** The record of the whole call, made from those of its parts. */
export function longRecord(facts: Readonly<CallFacts>, parts: readonly CallRecord[], end: LongCallEnd): CallRecord {
  return {
    ...facts,
    ...end,
    attempts: parts.flatMap(({ attempts }) => attempts),
    usage: usageOf(parts, end.state === "complete" ? end.characters : null),
    chunks: parts.reduce((sum, { chunks }) => sum + chunks, 0),
    clampedTo: null,
    plan: null,
    skippedEvents: parts.reduce((sum, { skippedEvents }) => sum + skippedEvents, 0),
  };
}

export interface LongCallEnd extends Pick<
  CallRecord,
  "status" | "state" | "failure" | "endedMs" | "firstContentMs" | "finish" | "bytesOut"
> {
  /** The characters of the whole text. */
  readonly characters: number;
}

/** The sum over all parts. If the answer broke off, the characters are those of the parts that were spoken. */
export function usageOf(parts: readonly CallRecord[], characters: number | null): MeteredUsage | null {
  const counted = parts.flatMap(({ usage }) => (usage === null ? [] : [usage]));
  if (counted.length === 0 && characters === null) return null;
  const sum = (of: (usage: MeteredUsage) => number | null | undefined): number | null => {
    const known = counted.flatMap((usage) => of(usage) ?? []);
    return known.length === 0 ? null : known.reduce((total, count) => total + count, 0);
  };
  return {
    promptTokens: sum((usage) => usage.promptTokens),
    completionTokens: sum((usage) => usage.completionTokens),
    cachedTokens: sum((usage) => usage.cachedTokens),
    reasoningTokens: sum((usage) => usage.reasoningTokens),
    characters: characters ?? sum((usage) => usage.characters),
  };
}
