import { pathTo } from "../../core/location.ts";

interface OverviewFigures {
  readonly calls: number;
  readonly failed: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number | null;
}

interface FirstContent {
  readonly p50_ms: number;
  readonly p95_ms: number;
  readonly p99_ms: number;
  readonly streams: number;
  readonly from_at: string;
}

export interface OverviewAnswer {
  readonly span: string;
  readonly from_at: string;
  readonly to_at: string;
  readonly totals: OverviewFigures;
  readonly before: OverviewFigures | null;
  readonly first_content: FirstContent | null;
  readonly first_content_before: FirstContent | null;
  readonly series: readonly (OverviewFigures & { readonly at: string })[];
  readonly by_operation: readonly { readonly operation: string; readonly calls: number; readonly failed: number }[];
  readonly now: {
    readonly running: number;
    readonly calls_per_minute: number;
    /** Null if metrics are off. */
    readonly since_at: string | null;
  };
}

export interface ProblemAnswer {
  readonly severity: "critical" | "warning";
  readonly kind: string;
  readonly subject: string | null;
  readonly message: string;
  readonly next: string;
  readonly until_at: string | null;
}

/** What was last known to be wrong; null if it is not known. That nothing was wrong says nothing any more once asking failed. */
export function shownProblems(known: readonly ProblemAnswer[] | null, hasFailed: boolean): readonly ProblemAnswer[] | null {
  return hasFailed && known?.length === 0 ? null : known;
}

export interface OverviewSeries {
  readonly at: readonly number[];
  readonly calls: readonly number[];
  readonly failed: readonly number[];
  readonly cost: readonly number[];
}

/** The series with a zero for each minute, hour or day without calls, which the answer leaves out. */
export function seriesOf({ span, from_at, to_at, series }: OverviewAnswer): OverviewSeries {
  const stepMs = steps[span] ?? 3_600_000;
  const found = new Map(series.map((row) => [floor(Date.parse(row.at), stepMs), row]));
  const first = floor(Date.parse(from_at), stepMs);
  const last = floor(Date.parse(to_at), stepMs);
  const moments = Array.from(
    { length: Math.min(pointsMax, Math.max(1, Math.round((last - first) / stepMs) + 1)) },
    (_, at) => first + at * stepMs,
  );
  const rows = moments.map((ms) => found.get(ms));
  return {
    at: moments.map((ms) => ms / 1000),
    calls: rows.map((row) => row?.calls ?? 0),
    failed: rows.map((row) => row?.failed ?? 0),
    cost: rows.map((row) => row?.cost_usd ?? 0),
  };
}

const steps: Readonly<Record<string, number>> = { "1h": 60_000, "24h": 3_600_000, "7d": 3_600_000, "30d": 86_400_000, "90d": 86_400_000 };
const pointsMax = 1000;

function floor(ms: number, stepMs: number): number {
  return ms - (ms % stepMs);
}

/** Of the store, or of the configuration file. No id of a key begins so. */
const groupId = /^(grp_|file-group:)/;

/** Where to look at a problem; null if no page shows more of it. */
export function problemPath({ kind, subject }: ProblemAnswer): string | null {
  if (kind.startsWith("channel_") && subject !== null) return pathTo("channel", { name: subject });
  if (kind.startsWith("budget_") && subject !== null) return pathTo(groupId.test(subject) ? "group" : "key", { id: subject });
  if (kind === "no_channel") return pathTo("channels");
  if (kind === "many_failures") return pathTo("requests", {}, { state: "failed", since: "1h" });
  return pathTo("settings");
}
