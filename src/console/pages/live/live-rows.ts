/** A call in the live view, as the admin API sends it. */
export interface LiveRow {
  readonly id: string;
  readonly request_id: string;
  readonly key: string | null;
  readonly key_name: string | null;
  readonly operation: string;
  readonly model: string | null;
  readonly stream: boolean;
  readonly state: string;
  readonly status: number | null;
  readonly error: string | null;
  readonly started_ms: number;
  readonly took_ms: number;
  readonly first_content_ms: number | null;
  readonly output_tokens: number;
  readonly cost_usd: number | null;
  readonly attempts: readonly LiveRowAttempt[];
}

export interface LiveRowAttempt {
  readonly channel: string;
  readonly model: string;
  readonly after_ms: number;
  readonly took_ms: number;
  readonly outcome: string;
  readonly error: string | null;
  readonly hedge: boolean;
}

export interface LiveFrameAnswer {
  readonly calls: readonly LiveRow[];
  readonly running: number;
  readonly omitted: number;
}

export interface LiveState {
  /** Newest first. A row keeps its place while it changes. */
  readonly rows: readonly LiveRow[];
  readonly running: number;
  /** How many calls were left out since the page was opened. */
  readonly omitted: number;
  /** When each running call was last in a frame. */
  readonly seenMs: ReadonlyMap<string, number>;
}

export const noRows: LiveState = { rows: [], running: 0, omitted: 0, seenMs: new Map() };

/** More rows than this nobody reads. The oldest that have ended go first. */
export const rowsMax = 200;

/**
 * A running call is sent at least once a second. One that is not has ended in a frame that did not come: while the page was paused or not
 * connected, or because too much happened.
 */
export const unseenMs = 3000;

/** The rows after a frame. Rows that did not change are the same objects, so that they are not drawn again. */
export function withFrame(state: LiveState, frame: LiveFrameAnswer, nowMs: number): LiveState {
  const seenNow = new Set(frame.calls.map(({ id }) => id));
  const changed = new Map(frame.calls.map((call) => [call.id, call]));
  const kept = state.rows.map((row) => {
    const next = changed.get(row.id);
    if (next === undefined) return row;
    changed.delete(row.id);
    // Frames that crossed must not bring a call back to life.
    return row.state !== "running" && next.state === "running" ? row : next;
  });
  const added = [...changed.values()].toSorted((one, other) => other.started_ms - one.started_ms);
  const seenOf = ({ id }: LiveRow): number => (seenNow.has(id) ? nowMs : (state.seenMs.get(id) ?? nowMs));
  const rows = bounded([...added, ...kept].filter((row) => row.state !== "running" || nowMs - seenOf(row) <= unseenMs));
  const seenMs = new Map(rows.filter((row) => row.state === "running").map((row) => [row.id, seenOf(row)]));
  return { rows, running: frame.running, omitted: state.omitted + frame.omitted, seenMs };
}

function bounded(rows: readonly LiveRow[]): readonly LiveRow[] {
  let over = rows.length - rowsMax;
  if (over <= 0) return rows;
  const kept = rows
    .toReversed()
    .filter((row) => {
      if (over <= 0 || row.state === "running") return true;
      over -= 1;
      return false;
    })
    .toReversed();
  return kept.slice(0, rowsMax);
}

/** The rows that contain all words somewhere in what is shown of them. */
export function matching(rows: readonly LiveRow[], filter: string): readonly LiveRow[] {
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const channels = row.attempts.map(({ channel }) => channel).join(" ");
    const text =
      `${row.key_name ?? ""} ${row.model ?? ""} ${row.operation} ${row.state} ${row.status ?? ""} ${row.error ?? ""} ${channels}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** Tokens a second since the first content; null before there is something to divide. */
export function tokensPerSecond({ output_tokens, took_ms, first_content_ms }: LiveRow): number | null {
  if (first_content_ms === null || output_tokens < 2) return null;
  const seconds = (took_ms - first_content_ms) / 1000;
  return seconds <= 0.05 ? null : output_tokens / seconds;
}
