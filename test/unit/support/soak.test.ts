import { describe, expect, test } from "bun:test";
import { findingsOf, table, type Soaked } from "../../../bench/soak/findings.ts";
import { callProblem } from "../../../bench/soak/ledger.ts";
import { residentPartsOf } from "../../../bench/soak/memory.ts";
import { readSoakOptions } from "../../../bench/soak/options.ts";
import { endingOf } from "../../../bench/soak/traffic.ts";
import { isFlat, trendOf, type Point } from "../../../bench/soak/trend.ts";
import type { Sample } from "../../../bench/soak/watch.ts";

/** An hour, a sample every five seconds; memory goes up and down by 8 MB as garbage is collected. */
function hour(valueAt: (minute: number) => number): readonly Point[] {
  return Array.from({ length: 720 }, (_, at) => ({ minute: at / 12, value: valueAt(at / 12) + ((at * 7919) % 97) / 12 }));
}

describe("the trend of a soak", () => {
  test.each([
    ["does not change", () => 100, true],
    ["falls", (minute: number) => 200 - minute, true],
    ["grows by half of what it may", (minute: number) => 100 + minute * 0.05, true],
    ["grows by three times what it may", (minute: number) => 100 + minute * 0.3, false],
    ["grows in steps", (minute: number) => 100 + Math.floor(minute / 10) * 5, false],
  ])("of memory that %s", (_, valueAt, flat) => {
    expect(isFlat(trendOf(hour(valueAt))!, 0.1)).toBe(flat);
  });

  test("is as steep as the values, and knows how sure that is", () => {
    const { perMinute, noise } = trendOf(hour((minute) => minute * 2))!;
    expect(Math.abs(perMinute - 2)).toBeLessThan(noise + 0.01);
    expect(noise).toBeLessThan(0.1);
  });

  test("is unknown where there are few samples", () => {
    expect(trendOf([])).toBeNull();
    expect(trendOf(hour(() => 1).slice(0, 10))).toBeNull();
  });
});

const ledger = { calls: 2, promptTokens: 10, completionTokens: 20 };
const sums = { ...ledger, nanos: 300 };

function soaked(changes: Partial<Soaked> = {}, memory: (minute: number) => number = () => 100): Soaked {
  const samples = hour(memory).map(({ minute, value }): Sample => ({
    minute,
    rssMegabytes: value,
    heapMegabytes: 20,
    externalMegabytes: 5,
    resident: { arenas: value / 2, structures: 1, compiled: 1, malloc: 1, otherAnonymous: 1, files: 20, lazyFree: 0 },
    running: 3,
    openFiles: 30,
    threads: 20,
    temporaryFiles: 0,
  }));
  return {
    options: { minutes: 60, rate: 30, seed: 1, json: false, store: "sqlite", state: "memory" },
    before: samples[0]!,
    samples,
    rest: samples[0]!,
    calls: 2,
    byKind: { json: 2 },
    refused: { "": 2 },
    unexplained: [],
    reloads: 1,
    keys: { created: 1, rotated: 1, revoked: 1 },
    ledger: { served: ledger, received: ledger, receipts: sums, hours: sums, days: sums, budgets: 2, problems: [] },
    problems: [],
    ...changes,
  };
}

describe("a soak", () => {
  const broken = (found: Soaked): readonly string[] =>
    findingsOf(found).flatMap(({ promise, holds }) => (holds === false ? [promise] : []));

  test("that found nothing wrong holds every promise", () => {
    expect(findingsOf(soaked()).map(({ holds }) => holds)).not.toContain(false);
    expect(findingsOf(soaked()).map(({ holds }) => holds)).not.toContain(null);
  });

  test("of a few minutes says nothing about growth, and all about what stays at rest", () => {
    const short = soaked({ options: { ...soaked().options, minutes: 1 } }, (minute) => minute * 100);
    expect(broken(short)).toEqual([]);
    expect(findingsOf(short).filter(({ holds }) => holds === null)).toHaveLength(5);
    const rest = { ...short.before, openFiles: 40, threads: 30, temporaryFiles: 1 };
    expect(broken({ ...short, rest }).map((promise) => promise.split(",")[0])).toEqual([
      "open files at rest",
      "threads at rest",
      "temporary files at rest",
    ]);
  });

  test.each<[string, Soaked]>([
    ["memory flat", soaked({}, (minute) => 100 + minute)],
    ["open files at rest", soaked({ rest: { ...soaked().before, openFiles: 40 } })],
    ["threads at rest", soaked({ rest: { ...soaked().before, threads: 22 } })],
    ["temporary files at rest", soaked({ rest: { ...soaked().before, temporaryFiles: 1 } })],
    ["other calls that did not end", soaked({ unexplained: ["json: 502"] })],
    ["calls refused because the store", soaked({ unexplained: ["json: 503"], refused: { store_unavailable: 1 } })],
    ["errors in the log", soaked({ problems: ["a reload: it ended"] })],
    ["served = receipts", soaked({ ledger: { ...soaked().ledger, served: { ...ledger, promptTokens: 11 } } })],
    ["receipts = sums", soaked({ ledger: { ...soaked().ledger, days: { ...sums, nanos: 299 } } })],
    ["calls without their receipt", soaked({ ledger: { ...soaked().ledger, problems: ["call 1: no receipt"] } })],
  ])("breaks one promise alone: %s", (promise, found) => {
    const all = broken(found);
    expect(all).toHaveLength(1);
    expect(all[0]).toStartWith(promise);
  });
});

describe("a call of a soak", () => {
  const refusal = (code: string): string =>
    JSON.stringify({ error: { message: "Try again later.", type: "service_unavailable_error", code } });
  const inMessages = '{"type":"error","error":{"type":"overloaded_error","message":"","details":{"error_code":"store_unavailable"}}}';

  test.each([
    ["was served", "json", 200, "{}", null, false],
    ["found no room", "json", 503, refusal("overloaded"), "overloaded", false],
    ["came while the store did not answer", "upload", 503, refusal("store_unavailable"), "store_unavailable", true],
    ["did so in another API", "messages", 529, inMessages, "store_unavailable", true],
    ["was to be left, and did so", "leave", 503, refusal("store_unavailable"), "store_unavailable", true],
    ["failed upstream", "json", 502, refusal("upstream_error"), null, true],
  ] as const)("that %s is told from others, and needs a receipt unless it was refused", (_, kind, status, text, refused, isWrong) => {
    const ending = endingOf(kind, status, text);
    expect([ending.refused, ending.problem !== null]).toEqual([refused, isWrong]);
    const outcome = { kind, keyId: "k", ...ending };
    expect(callProblem(outcome, [], [])).toBe(refused === null ? "no receipt" : null);
    const served = { call: 1, manner: "ok", promptTokens: 1, completionTokens: 1, whole: true } as const;
    expect(callProblem(outcome, [], [served])).toContain("no receipt");
  });
});

test("the memory of a soak is told apart, and by parts of its time", () => {
  const mapping = (range: string, rights: string, name: string, kibibytes: number, lazy = 0): string =>
    `${range} ${rights} 00000000 00:00 0    ${name}\nSize: 1 kB\nRss:   ${kibibytes} kB\nPss: 7 kB\nLazyFree:  ${lazy} kB\nVmFlags: rd wr\n`;
  const smaps =
    mapping("100000000000-100040000000", "rw-p", "", 3_000, 1_000) +
    mapping("200000000000-200100000000", "rw-p", "", 2_000) +
    mapping("300000000000-300040000000", "rwxp", "", 500) +
    mapping("7f0000000000-7f0000800000", "rw-p", "", 40) +
    mapping("7f0100000000-7f0100001000", "r--s", "/data/sluice.db-shm", 32) +
    mapping("55d000000000-55d000100000", "rw-p", "[heap]", 64) +
    mapping("7ffe00000000-7ffe00021000", "rw-p", "[stack]", 8);
  expect(residentPartsOf(smaps)).toEqual({
    arenas: 3.072,
    structures: 2.048,
    compiled: 0.512,
    malloc: 0.065536,
    otherAnonymous: 0.049152,
    files: 0.032768,
    lazyFree: 1.024,
  });
  const grown = soaked({}, (minute) => 100 + minute * 2);
  const lines = table(findingsOf(grown), grown).split("\n");
  const parts = lines.slice(lines.findIndex((line) => line.includes("otherAnonymous")) + 1);
  expect(parts.filter((line) => /^ +to \d+\.\d /.test(line))).toHaveLength(12);
  expect(parts.find((line) => line.includes("in 10 min"))).toMatch(/ 20\.\d ± /);
});

test("the options of a soak are checked", () => {
  expect(readSoakOptions([])).toMatchObject({ minutes: 60, rate: 100, json: false });
  expect(readSoakOptions(["--minutes", "0.3", "--rate", "8", "--json"])).toMatchObject({ minutes: 0.3, rate: 8, json: true });
  for (const wrong of [
    ["--minutes", "0"],
    ["--minutes", "x"],
    ["--rate", "-1"],
    ["--rate", "1e9"],
    ["--seed", ""],
    ["--hours", "1"],
  ]) {
    expect(readSoakOptions(wrong)).toHaveProperty("refused");
  }
});
