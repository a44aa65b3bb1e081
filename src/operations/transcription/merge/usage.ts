import type { TranscriptUsage } from "../transcript.ts";
import type { MeteredUsage } from "../../usage.ts";

/** The sum of the usage of several answers. A figure that no answer reports is unknown. */
export function summedUsage(usages: readonly (MeteredUsage | null)[]): MeteredUsage | null {
  const reported = usages.filter((usage) => usage !== null);
  if (reported.length === 0) return null;
  const sum = (figure: (usage: MeteredUsage) => number | null | undefined): number | null => {
    const figures = reported.map(figure).filter((value) => value != null);
    return figures.length === 0 ? null : figures.reduce((total, value) => total + value, 0);
  };
  return {
    promptTokens: sum(({ promptTokens }) => promptTokens),
    completionTokens: sum(({ completionTokens }) => completionTokens),
    cachedTokens: sum(({ cachedTokens }) => cachedTokens),
    reasoningTokens: sum(({ reasoningTokens }) => reasoningTokens),
    audioSeconds: sum(({ audioSeconds }) => audioSeconds),
    ...(reported.some(({ estimated }) => estimated === true) ? { estimated: true } : undefined),
  };
}

/** The sum of the usage reports of several answers, if all of them have the same fields; else null, and the duration is used. */
export function summedReport(reports: readonly (TranscriptUsage | null)[]): TranscriptUsage | null {
  const [first] = reports;
  if (first == null) return null;
  return reports
    .slice(1)
    .reduce<TranscriptUsage | null>((sum, each) => (sum === null || each === null ? null : added(sum, each, 0)), first);
}

/** Reports have figures, and details with figures. */
const depthMax = 3;

function added(a: TranscriptUsage, b: TranscriptUsage, depth: number): TranscriptUsage | null {
  const keys = Object.keys(a);
  if (depth > depthMax || keys.length !== Object.keys(b).length) return null;
  const sum: Record<string, unknown> = {};
  for (const key of keys) {
    const value = addedValue(a[key], b[key], depth);
    if (value === undefined) return null;
    sum[key] = value;
  }
  return sum;
}

/** `undefined` if the two are of different kinds. */
function addedValue(a: unknown, b: unknown, depth: number): unknown {
  if (typeof a === "number" && typeof b === "number") return a + b;
  if (isReport(a) && isReport(b)) return added(a, b, depth + 1) ?? undefined;
  return a === b ? a : undefined;
}

function isReport(value: unknown): value is TranscriptUsage {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
