import type { LedgerCheck, LedgerFigures } from "./ledger.ts";
import type { SoakOptions } from "./options.ts";
import { isFlat, trendOf } from "./trend.ts";
import { memoryTable } from "./memory.ts";
import type { Sample } from "./watch.ts";

/** Everything that was seen. */
export interface Soaked {
  readonly options: SoakOptions;
  readonly before: Sample;
  readonly samples: readonly Sample[];
  /** When all calls had ended. */
  readonly rest: Sample;
  readonly calls: number;
  readonly byKind: Readonly<Record<string, number>>;
  /** Calls that the gateway refused because of its own state, by the code that it gave; by an empty one, all others. */
  readonly refused: Readonly<Record<string, number>>;
  /** Calls that did not end as they should have, in words. */
  readonly unexplained: readonly string[];
  readonly reloads: number;
  readonly keys: { readonly created: number; readonly rotated: number; readonly revoked: number };
  readonly ledger: LedgerCheck;
  /** What else went wrong: changes that were refused, errors in the log. */
  readonly problems: readonly string[];
}

export interface Finding {
  readonly promise: string;
  readonly found: string;
  /** Null where too little was seen to say so. */
  readonly holds: boolean | null;
}

export function findingsOf(soaked: Soaked): readonly Finding[] {
  const { before, rest, ledger } = soaked;
  return [
    ...flat(soaked, "memory", "MB", ({ rssMegabytes }) => rssMegabytes, 0.1),
    ...flat(soaked, "heap", "MB", ({ heapMegabytes }) => heapMegabytes, 0.1),
    ...flat(soaked, "open files", "files", ({ openFiles }) => openFiles, 0.1),
    ...flat(soaked, "threads", "threads", ({ threads }) => threads, 0.1),
    ...flat(soaked, "temporary files", "files", ({ temporaryFiles }) => temporaryFiles, 0.1),
    atMost("open files at rest, more than before", rest.openFiles - before.openFiles, keptFilesMax),
    atMost("threads at rest, more than before", rest.threads - before.threads, keptThreadsMax),
    atMost("temporary files at rest, more than before", rest.temporaryFiles - before.temporaryFiles, 0),
    atMost("calls refused because the store did not answer", soaked.refused["store_unavailable"] ?? 0, 0),
    atMost("other calls that did not end as they should", soaked.unexplained.length - (soaked.refused["store_unavailable"] ?? 0), 0),
    atMost("errors in the log, and changes that failed", soaked.problems.length, 0),
    equal("served = receipts, of whole answers", [ledger.served, ledger.received]),
    equal("receipts = sums by hour = sums by day", [ledger.receipts, ledger.hours, ledger.days]),
    atMost(`calls without their receipt, or budgets unlike their receipts (of ${ledger.budgets})`, ledger.problems.length, 0),
  ];
}

/**
 * The first third is warm-up: what the runtime compiles and keeps at first is not a leak. Below some minutes a trend is noise; then what is open
 * at rest tells of files and threads that stay.
 */
function flat(
  { options, samples }: Soaked,
  name: string,
  unit: string,
  value: (sample: Sample) => number,
  limitPerMinute: number,
): readonly Finding[] {
  const promise = `${name} flat: at most ${limitPerMinute * 10} ${unit} in 10 minutes`;
  if (options.minutes < minutesMin) return [{ promise, found: `not judged below ${minutesMin} minutes`, holds: null }];
  const warm = samples.filter(({ minute }) => minute >= options.minutes * warmUpShare);
  const trend = trendOf(warm.map((sample) => ({ minute: sample.minute, value: value(sample) })));
  if (trend === null) return [{ promise, found: "too few samples", holds: false }];
  const values = warm.map(value);
  const range = `${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)} ${unit}`;
  const found = `${(trend.perMinute * 10).toFixed(2)} ± ${(trend.noise * 10).toFixed(2)} in 10 minutes, ${range}`;
  return [{ promise, found, holds: isFlat(trend, limitPerMinute) }];
}

function atMost(promise: string, value: number, limit: number): Finding {
  return { promise: `${promise}: at most ${limit}`, found: String(value), holds: value <= limit };
}

function equal(promise: string, all: readonly Partial<LedgerFigures>[]): Finding {
  const shown = (each: Partial<LedgerFigures>): string => {
    const { calls = 0, promptTokens = 0, completionTokens = 0, nanos } = each;
    return `${calls} calls, ${promptTokens} + ${completionTokens} tokens${nanos === undefined ? "" : `, $${(nanos / 1e9).toFixed(6)}`}`;
  };
  const texts = [...new Set(all.map((each) => JSON.stringify(each)))];
  const first = all[0] ?? {};
  return {
    promise,
    found: texts.length === 1 ? shown(first) : all.map(shown).join(" ≠ "),
    holds: texts.length === 1 && (first.calls ?? 0) > 0,
  };
}

export function table(findings: readonly Finding[], soaked: Soaked): string {
  const verdict = (holds: boolean | null): string => (holds === null ? "-" : holds ? "holds" : "BROKEN");
  const width = Math.max(...findings.map(({ promise }) => promise.length));
  const { calls, byKind, refused, reloads, keys, unexplained, problems, ledger, options, samples } = soaked;
  // Of each sort, so that many of one do not hide the others.
  const examples = [unexplained, problems, ledger.problems].flatMap((some) => some.slice(0, examplesMax));
  return [
    "",
    ...findings.map(({ promise, found, holds }) => `${verdict(holds).padEnd(6)}  ${promise.padEnd(width)}  ${found}`),
    "",
    `${calls} calls in ${options.minutes} minutes (${Object.entries(byKind)
      .map(([kind, count]) => `${kind} ${count}`)
      .join(", ")}), ${refused["overloaded"] ?? 0} of them shed`,
    `${reloads} reloads; keys: ${keys.created} created, ${keys.rotated} rotated, ${keys.revoked} revoked`,
    ...examples.map((example) => `wrong   ${example}`),
    "",
    ...memoryTable(samples, options.minutes * warmUpShare),
    "",
  ].join("\n");
}

const minutesMin = 5;
const warmUpShare = 1 / 3;
/** As many as one connection to the store has. */
const keptFilesMax = 3;
/** A thread of the runtime that compiles or collects comes and goes by itself. */
const keptThreadsMax = 1;
const examplesMax = 8;
