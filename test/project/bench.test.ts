// Needs: alone, slow. It keeps both processors busy for a minute, to prove that the bench runs; what it says of speed proves nothing.
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { platform, tmpdir } from "node:os";
import { join } from "node:path";
import type { ScenarioRow, Table } from "../../bench/report.ts";
import { root } from "../../scripts/source-tree.ts";
import { givenProgram } from "../support/given-program.ts";

setDefaultTimeout(560_000);

const folder = mkdtempSync(join(tmpdir(), "sluice-bench-test-"));
const running = new Set<Bun.Subprocess>();

afterAll(async () => {
  // It ends what it has started.
  for (const child of running) child.kill("SIGTERM");
  await Promise.all([...running].map(({ exited }) => exited));
  rmSync(folder, { recursive: true, force: true });
});

/** What is judged: in which scenario, with which bar, by its measure, which is followed by its unit, and what is asked for. */
const judgedRows: readonly (readonly [string, string, RegExp, string])[] = [
  ["levels", "P20", /^CPU per JSON request through four levels of limits and budgets, SQLite, us$/, "at most 10"],
  ["limits-on", "", /^memory before the first call, SQLite, MB$/, "at most 60"],
  ["limits-on", "", /^memory per idle stream of 200, SQLite, KiB$/, "at most 12"],
  ["limits-on", "P20", /four levels of limits and budgets, beside a key without, SQLite, us$/, "at most 10"],
  ["workers", "P21", /^calls per second of four workers on .*, 1\/s$/, "at least 3.4"],
];

/** What docs/performance.md says that they are judged by. */
const goals = ["60 MB before the first call", "12 KiB for an idle stream", "P20: at most 10 us", "at least 3.4 times"];

/** The lines of the table of `limits-on`. */
const everythingOn = [
  "CPU per JSON request, us",
  "of that on the serving thread, us",
  "CPU per stream of 100 chunks at once, us",
  "JSON requests per second, 64 connections",
  "JSON answer, p50 in ms, 200 a second",
  "JSON answer, p99 in ms, 200 a second",
  "first token, p50 in ms, 200 streams a second",
  "memory before the first call, MB",
  "memory after the load, MB",
  "memory per idle stream of 200, KiB",
];

/** What a run of the bench has printed. */
async function benched(options: readonly string[]): Promise<string> {
  const child = Bun.spawn(["sh", "bin/bun", "bench/run.ts", ...options], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  running.add(child);
  const [out, err, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  running.delete(child);
  expect({ code, out, err }).toMatchObject({ code: 0 });
  return out;
}

test.skipIf(platform() !== "linux")(
  "npm run bench measures limits, everything on, and workers, and says of each goal whether it is met (skipped without /proc)",
  async () => {
    const cheap = ["--quick", "--rounds", "1", "--seconds", "1", "--streams", "200", "--without-peer", "--without-servers"];
    const file = join(folder, "results.json");
    const out = await benched([...cheap, "--only", "levels,limits-on,workers", "--results", file]);

    const { rows, tables, remarks } = JSON.parse(readFileSync(file, "utf8")) as {
      readonly rows: readonly (ScenarioRow & { readonly verdict: string })[];
      readonly tables: readonly Table[];
      readonly remarks: readonly string[];
    };
    expect(remarks.filter((remark) => /was not completed|did not start|(gateway|floor) left out/.test(remark))).toEqual([]);
    const judged = rows.filter(({ judgement }) => judgement.kind === "judged");
    expect(judged.map(({ scenario, bar }) => [scenario, bar])).toEqual(judgedRows.map(([scenario, bar]) => [scenario, bar]));
    const lines = out.split("\n");
    for (const [at, { measure, unit, raw, judgement, verdict }] of judged.entries()) {
      const [, bar, name, asked] = judgedRows[at]!;
      expect(`${measure}, ${unit}`).toMatch(name);
      if (judgement.kind !== "judged") throw new Error("it was judged above");
      const { sense, limit, value } = judgement;
      expect(`${sense} ${limit}`).toBe(asked);
      expect(Number.isFinite(value)).toBe(true);
      expect(raw.gateway?.length).toBeGreaterThan(0);
      const isMet = sense === "at most" ? value <= limit : value >= limit;
      expect(verdict).toBe(isMet ? "pass" : "MISS");
      const shown = lines.filter((line) => line.includes(`${measure}, ${unit} `));
      expect(shown).toEqual([expect.stringMatching(new RegExp(`^${bar} .* ${sense} [\\d.]+ +${verdict}$`))]);
    }
    const said = readFileSync(join(root, "docs/performance.md"), "utf8");
    for (const goal of goals) expect(said).toContain(goal);

    const [table] = tables;
    expect(table?.columns).toEqual(["measure", "bare sockets", "floor", "SQLite", "PostgreSQL + Redis"]);
    for (const measure of everythingOn) {
      const cells = table?.lines.find(([name]) => name === measure)?.slice(1, 4) ?? [];
      expect([measure, cells.map((cell) => typeof cell === "number" && Number.isFinite(cell))]).toEqual([measure, [true, true, true]]);
      expect(lines.some((line) => line.startsWith(`${measure} `))).toBe(true);
    }
  },
);

test.skipIf(platform() !== "linux")(
  "npm run bench measures those of the given gateways that answer what the upstream said, and says of the others why not (skipped without /proc)",
  async () => {
    const file = join(folder, "peers.json");
    const cheap = ["--quick", "--rounds", "1", "--seconds", "1", "--without-peer", "--only", "peers", "--results", file];
    const programs = [
      ...["--busbar", givenProgram(folder, "busbar", "well")],
      ...["--bifrost", givenProgram(folder, "bifrost", "wrong")],
      ...["--litellm", givenProgram(folder, "litellm", "exits")],
    ];
    await benched([...cheap, ...programs]);
    const { rows, tables } = JSON.parse(readFileSync(file, "utf8")) as {
      readonly rows: readonly ScenarioRow[];
      readonly tables: readonly Table[];
    };
    expect(rows.find(({ bar }) => bar === "P19")?.judgement).toMatchObject({ kind: "judged", value: expect.any(Number) });
    const shown = new Map(tables[0]?.lines.map(([who, ...figures]) => [who, figures]));
    for (const keyed of ["without keys", "with a key"]) {
      const figures = shown.get(`busbar, ${keyed}`) ?? [];
      expect([figures.length, figures.every((figure) => typeof figure === "number" && figure > 0)]).toEqual([5, true]);
      expect(shown.get(`bifrost, ${keyed}`)?.[0]).toMatch(/^not measured: it answered 200: .*something else/);
      expect(shown.get(`litellm, ${keyed}`)?.[0]).toBe("not measured: it ended with code 3");
    }
  },
);
