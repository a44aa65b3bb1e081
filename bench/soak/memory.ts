import { quantile } from "../statistics.ts";
import { trendOf } from "./trend.ts";
import type { Sample } from "./watch.ts";

/**
 * What the resident memory of a process consists of, in megabytes. `arenas` is what the allocator of the runtime holds: the objects of
 * the heap, buffers and native memory such as SQLite's pages. `lazyFree` is part of it: given back, but not taken by the kernel yet.
 */
export interface ResidentParts {
  readonly arenas: number;
  readonly structures: number;
  readonly compiled: number;
  readonly malloc: number;
  readonly otherAnonymous: number;
  readonly files: number;
  readonly lazyFree: number;
}

/** Reads `/proc/PID/smaps`. */
export function residentPartsOf(smaps: string): ResidentParts {
  const parts = { arenas: 0, structures: 0, compiled: 0, malloc: 0, otherAnonymous: 0, files: 0, lazyFree: 0 };
  let part: keyof ResidentParts = "otherAnonymous";
  for (const line of smaps.split("\n")) {
    const mapping = mappingLine.exec(line)?.groups;
    if (mapping !== undefined) {
      const { from = "0", to = "0", rights = "", name = "" } = mapping;
      part = partOf(Number.parseInt(to, 16) - Number.parseInt(from, 16), rights, name);
      continue;
    }
    const [, field, kibibytes] = /^(Rss|LazyFree):\s+(\d+) kB$/.exec(line) ?? [];
    if (field === "Rss") parts[part] += (Number(kibibytes) * 1024) / 1e6;
    if (field === "LazyFree") parts.lazyFree += (Number(kibibytes) * 1024) / 1e6;
  }
  return parts;
}

/** The runtime reserves large areas without names, and tells them apart by their size. */
function partOf(bytes: number, rights: string, name: string): keyof ResidentParts {
  if (name === "[heap]") return "malloc";
  if (name !== "" && !name.startsWith("[")) return "files";
  if (rights.includes("x")) return "compiled";
  if (bytes >= structuresBytes) return "structures";
  return bytes >= arenaBytes ? "arenas" : "otherAnonymous";
}

const mappingLine = /^(?<from>[0-9a-f]+)-(?<to>[0-9a-f]+) (?<rights>\S{4}) \S+ \S+ \d+\s*(?<name>.*)$/;
const structuresBytes = 4 * 2 ** 30;
/** Of glibc and of the runtime; the stack of a thread is smaller. */
const arenaBytes = 32 * 2 ** 20;

const columns: readonly { readonly name: string; readonly value: (sample: Sample) => number }[] = [
  { name: "calls", value: ({ running }) => running },
  { name: "memory", value: ({ rssMegabytes }) => rssMegabytes },
  { name: "heap", value: ({ heapMegabytes }) => heapMegabytes },
  { name: "external", value: ({ externalMegabytes }) => externalMegabytes },
  ...(["arenas", "structures", "compiled", "malloc", "otherAnonymous", "files", "lazyFree"] as const).map((name) => ({
    name,
    value: ({ resident }: Sample) => resident[name],
  })),
];

/**
 * The memory of each part of the run, its lower quartile, and the most calls that ran in it at a time: whether memory grows all the time,
 * or is higher after each peak and flat between them. The last line is the growth after the warm-up, in 10 minutes.
 */
export function memoryTable(samples: readonly Sample[], warmFromMinute: number, parts = 12): readonly string[] {
  const last = samples.at(-1)?.minute ?? 0;
  if (samples.length < parts || last <= 0) return [];
  const row = (cells: readonly string[]): string => cells.map((cell) => cell.padStart(14)).join("");
  const byPart = Map.groupBy(samples, ({ minute }) => Math.min(parts - 1, Math.floor((minute / last) * parts)));
  const warm = samples.filter(({ minute }) => minute >= warmFromMinute);
  const grown = columns.map(({ name, value }) => {
    const trend = name === "calls" ? null : trendOf(warm.map((sample) => ({ minute: sample.minute, value: value(sample) })));
    return trend === null ? "" : `${(trend.perMinute * 10).toFixed(1)} ± ${(trend.noise * 10).toFixed(1)}`;
  });
  return [
    row(["minutes", ...columns.map(({ name }) => name)]),
    ...[...byPart].map(([part, some]) =>
      row([
        `to ${(((part + 1) * last) / parts).toFixed(1)}`,
        ...columns.map(({ name, value }) => {
          const values = some.map(value);
          return name === "calls" ? String(Math.max(...values)) : quantile(values, 0.25).toFixed(1);
        }),
      ]),
    ),
    row(["in 10 min", ...grown]),
  ];
}
