import { describe, expect, test } from "bun:test";
import { busyBefore, stolenDuring } from "../../../bench/quiet.ts";
import { claimsOf, idsOf } from "../../../scripts/prove/claims.ts";
import { commandOf, requirementsOf } from "../../../scripts/prove/commands.ts";
import {
  findingOfBench,
  findingOfProgram,
  findingOfTests,
  missedScenarios,
  withRerun,
  type BenchResults,
  type BenchRow,
} from "../../../scripts/prove/findings.ts";
import { planOf, type Selection } from "../../../scripts/prove/plan.ts";
import { readPromises } from "../../../scripts/prove/promises.ts";
import { proofPage, readProof, withRows, type Surroundings } from "../../../scripts/prove/proof.ts";
import type { ProcessorTimes } from "../../../scripts/test-machine.ts";
import type { FileReport, FileRun } from "../../../scripts/test-report.ts";

describe("a claim of a page", () => {
  const claimed = (page: string) => claimsOf(page).map(({ sentence, ids }) => [sentence, ids.join()]);

  test.each([
    ["It starts within 2 s.", true],
    ["It takes sixty requests a minute.", true],
    ["A stream never lies.", true],
    ["The answer comes back byte for byte.", true],
    ["It is the smallest of them.", true],
    ["Every call has a receipt.", true],
    ["It is a gateway to models.", false],
    ["Ask `http://127.0.0.1:4400` for it.", false],
    ["See [the page](docs/2026.md) about it.", false],
    ["Apache-2.0.", false],
  ])("is a sentence with a number or without an exception: %s", (sentence, isClaim) => {
    expect(claimed(sentence).length).toBe(isClaim ? 1 : 0);
  });

  test("is not in code, in a heading, in a table, or in a list of pages", () => {
    const page = "# All 3\n\n```sh\nsleep 5   # never\n```\n\n| every | 1 |\n\n- [docs/a.md](docs/a.md): every setting\n";
    expect(claimed(page)).toEqual([]);
  });

  test("is about the promises of the comment behind it, and of none in another paragraph or before it", () => {
    const page = [
      "It never sleeps. It is quick. All of it",
      "works. <!-- promise: one, two --> It takes 5 MB.",
      "",
      "- It loses nothing.",
      "- **It has no bound.** <!-- promise: three -->",
    ].join("\n");
    expect(claimed(page)).toEqual([
      ["It never sleeps.", "one,two"],
      ["All of it works.", "one,two"],
      ["It takes 5 MB.", ""],
      ["It loses nothing.", ""],
      ["**It has no bound.**", "three"],
    ]);
    expect(idsOf(page)).toEqual(["one", "two", "three"]);
  });

  test("is told with the line at which its paragraph begins", () => {
    expect(claimsOf("# A\n\nIt is.\nIt was\nnever.").map(({ line }) => line)).toEqual([3]);
  });
});

describe("a command", () => {
  test.each([
    ["sh bin/test test/a.test.ts test/b.test.ts", { kind: "tests", files: ["test/a.test.ts", "test/b.test.ts"] }],
    ["npm run bench -- --only start,many", { kind: "bench", scenarios: ["start", "many"] }],
    ["npm run test:python", { kind: "program", words: ["npm", "run", "test:python"] }],
    ["sh bin/bun scripts/x.ts", { kind: "program", words: ["sh", "bin/bun", "scripts/x.ts"] }],
  ])("is read: %s", (text, command) => {
    expect(commandOf(text)).toMatchObject(command);
  });

  test.each([
    "",
    "sh bin/test",
    "sh bin/test src/a.ts",
    "npm run bench",
    "npm run bench -- --only nothing",
    "npm run bench -- --quick",
    "rm -rf /",
  ])("is refused in words: %j", (text) => {
    expect(commandOf(text)).toEqual({ problem: expect.any(String) });
  });

  test("cannot do without its files and its script", () => {
    const needed = (text: string) => {
      const command = commandOf(text);
      return "problem" in command ? null : requirementsOf(command);
    };
    expect(needed("sh bin/test test/a.test.ts")).toEqual({ files: ["test/a.test.ts"], script: null });
    expect(needed("npm run bench -- --only json")).toEqual({ files: ["bench/scenarios/json.ts"], script: "bench" });
    expect(needed("npm run test:python")).toEqual({ files: [], script: "test:python" });
    expect(needed("sh bin/bun scripts/x.ts")).toEqual({ files: ["bin/bun", "scripts/x.ts"], script: null });
  });
});

const table = (...rows: readonly string[]): string => ["| id | promise | shown by |", "|---|---|---|", ...rows].join("\n");
const page = table(
  "| one | It works. | `sh bin/test test/a.test.ts` |",
  "| two | It works too. | `sh bin/test test/a.test.ts test/b.test.ts` |",
  "| P1 | It is quick. | `npm run bench -- --only json` |",
  "| P3 | So is this. | `npm run bench -- --only json` |",
  "| P11 | It is steady. | `npm run bench -- --only soak` |",
  "| python | It works there. | `npm run test:python` |",
);

describe("the table of promises", () => {
  test("is read row by row", () => {
    const { promises, problems } = readPromises(page);
    expect(problems).toEqual([]);
    expect(promises.map(({ id }) => id)).toEqual(["one", "two", "P1", "P3", "P11", "python"]);
    expect(promises[0]).toMatchObject({ claim: "It works.", commandText: "sh bin/test test/a.test.ts" });
  });

  test.each([
    ["| one | It works. |", "has an id, a sentence and a command"],
    ["| one | It works. |  |", "one: there is no command"],
    ["| one | It works. | sh bin/test test/a.test.ts |", "one: there is no command"],
    ["| one |  | `sh bin/test test/a.test.ts` |", "one promises nothing"],
    ["| no id | It works. | `sh bin/test test/a.test.ts` |", "is not an id"],
  ])("says what is wrong with a row, and in which line: %s", (row, problem) => {
    const { promises, problems } = readPromises(table(row));
    expect(promises).toEqual([]);
    expect(problems).toEqual([expect.stringContaining(problem)]);
    expect(problems[0]).toStartWith("line 3: ");
  });

  test("has each id once", () => {
    const row = "| one | It works. | `sh bin/test test/a.test.ts` |";
    expect(readPromises(table(row, row)).problems).toEqual(["line 4: there is another promise one"]);
  });
});

describe("the plan", () => {
  const { promises } = readPromises(page);
  const all: Selection = { only: null, quick: false, long: false };
  const idsWith = (selection: Partial<Selection>): readonly string[] => {
    const plan = planOf(promises, { ...all, ...selection });
    return "problem" in plan ? [plan.problem] : plan.promises.map(({ id }) => id);
  };

  test("runs each file, scenario and program once, however many promises need it", () => {
    expect(planOf(promises, all)).toMatchObject({
      files: ["test/a.test.ts", "test/b.test.ts"],
      scenarios: ["json"],
      programs: [["npm", "run", "test:python"]],
    });
  });

  test("has what was asked for", () => {
    expect(idsWith({})).toEqual(["one", "two", "P1", "P3", "python"]);
    expect(idsWith({ long: true })).toContain("P11");
    expect(idsWith({ quick: true })).toEqual(["one", "two"]);
    expect(idsWith({ only: ["P11", "two"] })).toEqual(["two", "P11"]);
    expect(idsWith({ only: ["P1", "two"], quick: true })).toEqual(["two"]);
    expect(idsWith({ only: ["P1"], quick: true })).toEqual([expect.stringContaining("no promise is left")]);
    expect(idsWith({ only: ["nothing"] })).toEqual([expect.stringContaining('no promise "nothing"')]);
  });
});

describe("what tests show", () => {
  const report = (counts: Partial<FileReport>): FileReport => ({ passed: 3, failed: 0, skipped: [], failures: [], ...counts });
  const run = (files: readonly string[], counts: Partial<FileReport> = {}): FileRun => ({
    files,
    report: report(counts),
    seconds: 2,
    cpuSeconds: 1,
    stolen: 0,
    alone: true,
    reruns: 0,
  });

  test("is what all files together came to", () => {
    const runs = [run(["a"]), run(["b"], { passed: 4 }), run(["c"], { failed: 1 })];
    expect(findingOfTests(["a", "b"], runs)).toEqual({ result: "shown", figure: "7 tests passed", seconds: 4 });
  });

  test("fails with a file that failed, or that was not run", () => {
    expect(findingOfTests(["a"], [run(["a"], { failed: 1, failures: ["a:\n(fail) x"] })])).toMatchObject({
      result: "fails",
      figure: "failed: a",
    });
    expect(findingOfTests(["a", "b"], [run(["a"])])).toMatchObject({ result: "fails", figure: "failed: b" });
  });

  test("fails for the file that failed, of those that share a process, and for all of them if it died", () => {
    const shared = run(["a", "b"], { failed: 1, failures: ["a:\n(fail) x"] });
    expect(findingOfTests(["a"], [shared]).result).toBe("fails");
    expect(findingOfTests(["b"], [shared])).toMatchObject({ result: "shown", figure: "all tests of 1 files passed" });
    expect(findingOfTests(["b"], [run(["a", "b"], { failed: 1, failures: ["killed"] })]).result).toBe("fails");
  });

  test("is nothing where all were skipped, and a part where some were, with the reason", () => {
    const skipped = ["a store (skipped: no PostgreSQL here) > works", "a store (skipped: no PostgreSQL here) > is quick"];
    expect(findingOfTests(["a"], [run(["a"], { passed: 0, skipped })])).toMatchObject({
      result: "not shown here",
      figure: "2 skipped: no PostgreSQL here",
    });
    expect(findingOfTests(["a"], [run(["a"], { skipped })])).toMatchObject({
      result: "shown in part",
      figure: "3 tests passed, 2 skipped: no PostgreSQL here",
    });
  });
});

describe("what the bench shows", () => {
  const judged = (bar: string, verdict: "pass" | "MISS", value: number, scenario: BenchRow["scenario"] = "json"): BenchRow => ({
    scenario,
    bar,
    measure: "CPU",
    unit: "us",
    verdict,
    judgement: { kind: "judged", what: "gateway/floor", value, limit: 1.3, sense: "at most" },
  });
  const unmeasured: BenchRow = {
    scenario: "json",
    bar: "P1",
    measure: "CPU",
    unit: "us",
    verdict: "not measured",
    judgement: { kind: "unjudged" },
  };
  const results = (...rows: readonly BenchRow[]): BenchResults => ({
    rows,
    remarks: ["replicas: left out: no Redis"],
    scenarioSeconds: { json: 60 },
    versions: {},
  });

  test("are the rows of its own scenarios and its own bar", () => {
    const rows = results(judged("P1", "pass", 1.2), judged("P1", "MISS", 9, "keys-limits"), judged("P3", "MISS", 9));
    expect(findingOfBench("P1", ["json"], rows)).toEqual({
      result: "shown",
      figure: "CPU, us: gateway/floor 1.20, at most 1.30",
      seconds: 60,
    });
    expect(findingOfBench("P3", ["json"], rows).result).toBe("fails");
  });

  test("is a part where a row could not be measured, and nothing where none could, with the reason", () => {
    expect(findingOfBench("P1", ["json"], results(judged("P1", "pass", 1), unmeasured)).result).toBe("shown in part");
    expect(findingOfBench("P1", ["json"], results(unmeasured)).result).toBe("not shown here");
    expect(findingOfBench("P15", ["replicas"], results())).toMatchObject({
      result: "not shown here",
      figure: "replicas: left out: no Redis",
    });
    const elsewhere = { ...results(), unavailable: "only Linux has /proc" };
    expect(findingOfBench("P1", ["json"], elsewhere)).toMatchObject({ result: "not shown here", figure: "only Linux has /proc" });
  });

  test("is nothing where something disturbed a figure, which is shown all the same", () => {
    const disturbed = { ...judged("P1", "MISS", 1.4), disturbance: "the machine was busy" };
    expect(findingOfBench("P1", ["json"], results(judged("P1", "pass", 1.1), disturbed))).toMatchObject({
      result: "not shown here",
      figure: "the machine was busy; CPU, us: gateway/floor 1.10, at most 1.30; CPU, us: gateway/floor 1.40, at most 1.30",
    });
    const undisturbed = { ...judged("P1", "MISS", 1.4), disturbance: null };
    expect(findingOfBench("P1", ["json"], results(undisturbed)).result).toBe("fails");
    const again = withRerun(results(disturbed), results({ ...judged("P1", "pass", 1.1), disturbance: null }));
    expect(findingOfBench("P1", ["json"], again).result).toBe("shown");
  });

  test("is a failure where the bench died, a scenario broke, or the gateway did not bear it", () => {
    const remarked = (remark: string) => findingOfBench("P1", ["json"], { ...results(unmeasured), remarks: [remark] }).result;
    expect(findingOfBench("P1", ["json"], null).result).toBe("fails");
    expect(remarked("json was not completed: refused")).toBe("fails");
    expect(remarked("json at 32 connections: gateway left out: it failed 3 requests")).toBe("fails");
    expect(remarked("chunk was not completed: refused")).toBe("not shown here");
  });

  test("that missed a bar is measured again, and one miss is not a miss", () => {
    const first = results(judged("P1", "MISS", 1.4), judged("P3", "pass", 1.1), judged("", "MISS", 3, "chunk"));
    expect(missedScenarios(["P1", "P3"], first)).toEqual(["json"]);
    const second = results(judged("P1", "pass", 1.2), judged("P3", "MISS", 1.5));
    const again = withRerun(first, { ...second, remarks: ["json: late", "replicas: left out: no Redis"] });
    expect(again.remarks).toEqual(["replicas: left out: no Redis", "json: late"]);
    expect(findingOfBench("P1", ["json"], again)).toEqual({
      result: "shown",
      figure: "CPU, us: gateway/floor 1.20, at most 1.30 (in longer turns)",
      seconds: 120,
    });
    expect(findingOfBench("P3", ["json"], again).result).toBe("shown");
    expect(findingOfBench("P1", ["json"], withRerun(first, first)).result).toBe("fails");
  });
});

describe("a bench on a machine that has something else to do", () => {
  const times = (idle: number, stolen: number, total = 1_000): ProcessorTimes => ({ total, idle, stolen });
  const began = times(0, 0, 0);

  test("is told from its processors before it begins, whoever takes them", () => {
    expect(busyBefore(began, times(950, 0))).toBeNull();
    expect(busyBefore(began, times(700, 0))).toContain("30 % of its processors");
    expect(busyBefore(began, times(700, 300))).toContain("30 % of its processors");
    expect(busyBefore(null, null)).toBeNull();
  });

  test("is told while it runs from what the host takes, because the bench itself keeps it busy", () => {
    expect(stolenDuring(began, times(0, 50))).toBeNull();
    expect(stolenDuring(began, times(0, 200))).toContain("took 20 %");
  });
});

test("what a program shows is told by its exit code", () => {
  const ended = (code: number) => findingOfProgram({ code, lastLine: "280 MB", seconds: 1 });
  expect(ended(0)).toEqual({ result: "shown", figure: "280 MB", seconds: 1 });
  expect(ended(69)).toMatchObject({ result: "not shown here", figure: "280 MB" });
  expect(ended(1)).toMatchObject({ result: "fails", figure: "ended with 1: 280 MB" });
  expect(findingOfProgram(undefined).result).toBe("fails");
});

describe("the page of proof", () => {
  const { promises } = readPromises(page);
  const surroundings: Surroundings = {
    date: new Date("2026-11-17T09:30:00Z"),
    commit: "0123456789ab",
    hasChanges: true,
    processors: "2 × a processor",
    memory: "8.0 GB",
    system: "linux 6.1 x64",
    versions: { Bun: "1.4.4", Node: "20.1.0" },
    seconds: 605,
    remarks: ["nginx is not on the PATH: left out"],
  };
  const all = promises.map((promise, at) => ({
    promise,
    finding:
      at < 2
        ? ({ result: "shown", figure: "3 tests | passed\nand more", seconds: 75 } as const)
        : ({ result: "not run", figure: "", seconds: 0 } as const),
  }));
  const written = proofPage(all, surroundings);

  test("says what was run where, and what came of it", () => {
    expect(written).toContain("| date | 2026-11-17 09:30 UTC |");
    expect(written).toContain("| commit | 0123456789ab, with changes that were not committed |");
    expect(written).toContain("| versions | Bun 1.4.4, Node 20.1.0 |");
    expect(written).toContain("| took | 10:05 min |");
    expect(written).toContain("2 shown, 4 not run.");
    expect(written).toContain("| one | shown | 3 tests / passed and more | `sh bin/test test/a.test.ts` | 1:15 min |");
    expect(written).toContain("- nginx is not on the PATH: left out");
  });

  test("is read back as it was written", () => {
    const { rows, problems } = readProof(written);
    expect(problems).toEqual([]);
    expect(rows.map(({ id, result }) => `${id} ${result}`)).toEqual([
      "one shown",
      "two shown",
      "P1 not run",
      "P3 not run",
      "P11 not run",
      "python not run",
    ]);
  });

  test("is given a row for each promise that it has none of, and keeps what it says of the others", () => {
    const rows = written.split("\n");
    const old = rows
      .filter((line) => !/^\| (two|P3|python) \|/.test(line))
      .join("\n")
      .replace("2 shown, 4 not run.", "1 shown, 2 not run.");
    const whole = withRows(old, promises);
    const twoNotRun = "| two | not run |  | `sh bin/test test/a.test.ts test/b.test.ts` |  |";
    expect(whole).toBe(written.replace(/^\| two \|.*$/m, twoNotRun).replace("2 shown, 4 not run.", "1 shown, 5 not run."));
    expect(withRows(whole, promises)).toBe(whole);
    // Another command shows another promise: what the one before it showed is not kept.
    expect(withRows(written.replace(/^(\| two \|.*)`sh bin\/test .*` \|/m, "$1`sh bin/test test/c.test.ts` |"), promises)).toBe(whole);
    expect(withRows(written, promises.slice(2))).toBe(
      rows
        .filter((line) => !/^\| (one|two) \|/.test(line))
        .join("\n")
        .replace("2 shown, 4 not run.", "4 not run."),
    );
  });

  test("is wrong without a fact, with a result that is none, and without a figure", () => {
    expect(readProof(written.replace("| commit |", "| comet |")).problems).toEqual(["it does not tell the commit"]);
    expect(readProof(written.replace("| one | shown |", "| one | proven |")).problems).toEqual(['one: "proven" is no result']);
    expect(readProof(written.replace("3 tests / passed and more", "")).problems).toEqual(["one: there is no figure"]);
  });
});
