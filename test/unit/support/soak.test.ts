import { describe, expect, test } from "bun:test";
import { findingsOf, type Soaked } from "../../../bench/soak/findings.ts";
import { readSoakOptions } from "../../../bench/soak/options.ts";
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
    shed: 0,
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

  test("of a few minutes says nothing about growth", () => {
    const short = soaked({ options: { ...soaked().options, minutes: 1 } }, (minute) => minute * 100);
    expect(broken(short)).toEqual([]);
    expect(findingsOf(short).filter(({ holds }) => holds === null)).toHaveLength(5);
  });

  test.each<[string, Soaked]>([
    ["memory flat", soaked({}, (minute) => 100 + minute)],
    ["open files at rest", soaked({ rest: { ...soaked().before, openFiles: 40 } })],
    ["temporary files at rest", soaked({ rest: { ...soaked().before, temporaryFiles: 1 } })],
    ["calls that did not end", soaked({ unexplained: ["json: 502"] })],
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

test("the options of a soak are checked", () => {
  expect(readSoakOptions([])).toMatchObject({ minutes: 60, rate: 30, json: false });
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
