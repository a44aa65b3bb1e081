import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";

const page = readFileSync(join(root, "docs/scale.md"), "utf8");

interface Row {
  readonly what: string;
  readonly one: string;
  readonly fifty: string;
  readonly basis: string;
}

/** The table of fifty replicas. */
const rows: readonly Row[] = page
  .split("## Fifty replicas at 10,000 calls a second")[1]!
  .split("\n## ")[0]!
  .split("\n")
  .filter((line) => /^\| [^|-]/.test(line) && !line.startsWith("| what |"))
  .map((line) => {
    const [what = "", one = "", fifty = "", basis = ""] = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
    return { what, one, fifty, basis };
  });

const replicas = 50;
const callsPerSecond = 10_000;
const daySeconds = 86_400;
const keptDays = 90;

/** With its thousands apart; below ten with one digit more. */
const written = (figure: number): string =>
  figure < 10 ? figure.toFixed(1) : Math.round(figure).toLocaleString("en-US", { maximumFractionDigits: 0 });
const gigabytesADay = (bytes: number): string => written((bytes * callsPerSecond * daySeconds) / 1e9);
const terabytesKept = (bytes: number): string => written((bytes * callsPerSecond * daySeconds * keptDays) / 1e12);
const megabytesASecond = (bytes: number): string => written((bytes * callsPerSecond) / 1e6);
const ofAll = (figure: number): string => written(figure * replicas);

/** What follows from the numbers of one replica, in the order of the rows that say that they are computed. */
const arithmetic: readonly (readonly [what: RegExp, fifty: (...one: readonly number[]) => string])[] = [
  [
    /^receipts on disk/,
    (bytes = 0) => `${gigabytesADay(bytes)} GB a day, ${terabytesKept(bytes)} TB for the ${keptDays} days of \`receipts.keep\``,
  ],
  [/receipts\.sample: 0\.1/, (bytes = 0) => `${gigabytesADay(bytes)} GB a day, ${terabytesKept(bytes)} TB for ${keptDays} days`],
  [
    /^write-ahead log/,
    (least = 0, most = 0, plain = 0) => `${megabytesASecond(least)} to ${megabytesASecond(most)} MB/s; ${megabytesASecond(plain)}`,
  ],
  [/receipts\.sample: 0\.1/, (bytes = 0, plain = 0) => `${megabytesASecond(bytes)} MB/s; ${megabytesASecond(plain)}`],
  [/^transactions for receipts/, (each = 0) => `${ofAll(each)} a second, as long as the rows that they share allow it (below)`],
  [/^polling/, (transactions = 0, commands = 0) => `${ofAll(transactions)} transactions/s, ${ofAll(commands)} commands/s`],
  [/^connections to PostgreSQL/, (_1, _2, most = 0) => `${ofAll(most)} at most; ${ofAll(4)} with \`store_connections: 4\``],
  [/^connections to Redis/, (each = 0) => ofAll(each)],
  [/^Redis commands/, (each = 0) => `${written(each * callsPerSecond)}/s`],
];

const numbersIn = (text: string): readonly number[] =>
  [...text.matchAll(/\d[\d,]*(?:\.\d+)?/g)].map(([figure]) => Number(figure.replaceAll(",", "")));

describe("docs/scale.md, of fifty replicas at 10,000 calls a second,", () => {
  test("says of every row whether it was measured, computed or extrapolated", () => {
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter(({ basis }) => !/\b(?:measured|computed|extrapolated)\b/.test(basis)).map(({ what }) => what)).toEqual([]);
  });

  test("computes what it says is computed from the figures of one replica", () => {
    const computed = rows.filter(({ basis }) => basis.includes("computed"));
    expect(computed.map(({ what }, at) => arithmetic[at]?.[0].test(what) === true || what)).toEqual(arithmetic.map(() => true));
    expect(computed.map(({ what, fifty }) => [what, fifty])).toEqual(
      computed.map(({ what, one }, at) => [what, arithmetic[at]![1](...numbersIn(one))]),
    );
  });

  test("computes what it says of batches, budgets and connections in words", () => {
    const [, batches, heldMs] = /more batches a second than fit one after the other: (\d+), .* less than (\d+) ms/.exec(page) ?? [];
    expect(Number(batches)).toBe(1_000 / Number(heldMs));
    const [, everySeconds] = /renews what it holds of each budget every (\d+) s/.exec(page) ?? [];
    const [, few, rowsOfFew, many, rowsOfMany] =
      /([\d,]+) budgets in use on each of 50 replicas are ([\d,]+) rows a second, ([\d,]+) are ([\d,]+) \(extrapolated/.exec(page) ?? [];
    const renewed = (budgets: string | undefined): number => (Number(budgets?.replaceAll(",", "")) * replicas) / Number(everySeconds);
    // To two digits.
    const rounded = (figure: number): string => Number(figure.toPrecision(2)).toLocaleString("en-US");
    expect([rowsOfFew, rowsOfMany]).toEqual([rounded(renewed(few)), rounded(renewed(many))]);
    const [, inAll] = /from one process[^]*?at most (\d+): 8 for calls, 3 for queries of the admin API, 1 for receipts/.exec(page) ?? [];
    expect(page).toMatch(new RegExp(`Fifty replicas with the default need ${replicas * Number(inAll)}\\s+connections`));
  });
});
