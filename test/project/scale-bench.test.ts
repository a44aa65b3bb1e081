// Needs: slow. For half a minute a PostgreSQL and a Redis are kept busy, to prove that the script of docs/scale.md still runs.
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";
import { findPostgres, findRedis, lacking, remark } from "../support/servers/obtain.ts";

setDefaultTimeout(300_000);

const servers = [findPostgres(), findRedis()].map((found) => ("skipped" in found ? lacking(found.skipped) : found));
const missing = remark(...servers);
const running = new Set<Bun.Subprocess>();

afterAll(async () => {
  for (const child of running) child.kill("SIGTERM");
  await Promise.all([...running].map(({ exited }) => exited));
});

const shares = ["1", "0.1"];
const stores = ["SQLite", "PostgreSQL"];

/** What it measures for a row of the table in docs/scale.md, which says what the row is about, and how many figures it prints for that. */
const measured: readonly (readonly [row: string, lines: readonly string[], figures: number])[] = [
  [
    "| receipts on disk",
    stores.flatMap((store) => shares.map((share) => `${store}, bytes of disk a call for its receipt, with receipts.sample ${share}`)),
    1,
  ],
  ["| write-ahead log", shares.map((share) => `PostgreSQL, bytes of write-ahead log a call, with receipts.sample ${share}`), 1],
  [
    "| sums by hour and day",
    stores.flatMap((store) => shares.map((share) => `${store}, rows of those sums, with receipts.sample ${share}`)),
    10,
  ],
  ["| transactions for receipts", ["PostgreSQL, 2 writer(s) of 200: batches a second in all, and receipts"], 2],
  ["| polling", ["PostgreSQL, transactions/s of an idle gateway", "Redis, commands/s of an idle gateway"], 1],
  [
    "| Redis commands",
    ["1", "20", "1000000"].map((keys) => `Redis commands a call for a concurrency limit, 200 calls/s of ${keys} key(s)`),
    1,
  ],
  ["One partition for each day, which is dropped", ["PostgreSQL, ms to drop the days up to one of 500 receipts"], 1],
];

test.skipIf(missing !== "")(`bench/scale.ts --quick measures what docs/scale.md says that it does${missing}`, async () => {
  const child = Bun.spawn(["sh", "bin/bun", "bench/scale.ts", "--quick"], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  running.add(child);
  const [out, err, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  running.delete(child);
  expect({ code, out, err }).toMatchObject({ code: 0, err: "" });
  const page = readFileSync(join(root, "docs/scale.md"), "utf8");
  const lines = out.split("\n");
  for (const [row, names, count] of measured) {
    expect(page).toContain(row);
    for (const name of names) {
      const shown = lines.find((line) => line.startsWith(`${name} `))?.slice(name.length) ?? "";
      const figures = [...shown.matchAll(/(?<![\w.])\d+(?:\.\d+)?(?!\w)/g)].map(Number);
      expect([name, figures.length, figures.every((figure) => figure > 0)]).toEqual([name, count, true]);
    }
  }
});
