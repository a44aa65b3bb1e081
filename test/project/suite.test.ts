// Needs: alone. It runs suites of its own, two files at a time.
import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { startGroup, type GroupEnd, type GroupOptions } from "../../scripts/process-group.ts";
import { idleShare, processorTimes, stolenShare, worstStolenShare } from "../../scripts/test-machine.ts";
import { needsOf, type Need } from "../../scripts/test-needs.ts";
import { readReport, summarise, type FileReport, type FileRun, type Suite } from "../../scripts/test-report.ts";
import { eventually } from "../support/eventually.ts";
import { slownessOf } from "../support/slowed.ts";

const root = resolve(import.meta.dir, "../..");

describe("what a file of tests needs", () => {
  const needed = (text: string): readonly string[] => [...needsOf("one.test.ts", () => text)];

  test("is what its first line says", () => {
    expect(needed("// Needs: alone, servers. It measures memory.\nimport x;")).toEqual(["alone", "servers"]);
    expect(needed("// Needs: slow. It loads a model for each row.")).toEqual(["slow"]);
  });

  test("is nothing without such a line, and nothing that another line says", () => {
    for (const text of ["", "import x;", "import x;\n// Needs: alone. It measures memory."]) expect(needed(text)).toEqual([]);
  });

  test.each(["// Needs: alone", "// Needs: alone.", "// Needs:", "// Needs: silence. It listens.", "// Needs: alone,servers. Why."])(
    "is refused where it cannot be read: %s",
    (line) => {
      expect(() => needed(line)).toThrow("one.test.ts: its first line must be");
    },
  );
});

describe("the files of this suite", () => {
  const files = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts") && !name.includes("node_modules"))
    .map((name) => join("test", name));
  /** A file and everything of test/ that it imports, however far away. */
  function withSupport(file: string, seen = new Set<string>()): ReadonlySet<string> {
    if (seen.has(file)) return seen;
    seen.add(file);
    const imported = [...readFileSync(join(root, file), "utf8").matchAll(/from "(\.[^"]+)"/g)].map(([, name]) =>
      join(dirname(file), name!),
    );
    for (const other of imported) if (other.startsWith("test/")) withSupport(other, seen);
    return seen;
  }

  test("are there, and say what they need", () => {
    expect(files.length).toBeGreaterThan(200);
    for (const file of files) needsOf(join(root, file));
  });

  test("that play faults and replicas do not share the machine with just any other", () => {
    const played = files.filter((file) => /^test\/(faults|replicas)\//.test(file));
    expect(played.length).toBeGreaterThan(20);
    const shared = played.filter((file) => !["alone", "quiet"].some((need) => needsOf(join(root, file)).has(need as Need)));
    expect(shared).toEqual([]);
  });

  test("say that they need servers where they start them, and only there", () => {
    const starts = /\/servers\/(postgres|redis)/;
    const wrong = files.filter((file) => {
      const uses = [...withSupport(file)].some((path) =>
        starts.test(readFileSync(join(root, path), "utf8").replace(/^\/\/.*|^ \*.*/gm, "")),
      );
      return uses !== needsOf(join(root, file)).has("servers");
    });
    expect(wrong).toEqual([]);
  });

  test("of unit/ start no process, open no socket and no database, run no model, and need nothing", () => {
    const effects =
      /\bBun\.(spawn|spawnSync|listen|connect|serve|SQL)\b|"node:(child_process|net|http|https|tls|dgram)"|\bnew Worker\(|\bfetch\(|"bun:sqlite"/;
    const wrong = files
      .filter((file) => file.startsWith("test/unit/"))
      .filter(
        (file) =>
          needsOf(join(root, file)).size > 0 || [...withSupport(file)].some((path) => effects.test(readFileSync(join(root, path), "utf8"))),
      );
    expect(wrong).toEqual([]);
  });
});

function runOf(report: FileReport, run: Partial<FileRun> = {}): FileRun {
  return { files: ["test/x.test.ts"], report, seconds: 1, cpuSeconds: 0.5, stolen: 0, alone: true, reruns: 0, ...run };
}

const whole: Suite = { leftOut: [], seconds: 62.4 };

test("what the host takes is read from /proc/stat, as a share of the time between two readings", () => {
  const at = (user: number, idle: number, steal: number): string => `cpu  ${user} 0 0 ${idle} 0 0 0 ${steal} 7 7\ncpu0 1 1 1\n`;
  const before = processorTimes(() => at(100, 200, 50));
  expect(before).toEqual({ total: 350, idle: 200, stolen: 50 });
  expect(
    idleShare(
      before,
      processorTimes(() => at(160, 230, 60)),
    ),
  ).toBe(0.3);
  expect(
    stolenShare(
      before,
      processorTimes(() => at(160, 200, 90)),
    ),
  ).toBe(0.4);
  expect(stolenShare(before, before)).toBe(0);
  // macOS has none, and an old kernel tells less.
  for (const text of ["", "cpu  1 2 3\n"])
    expect(
      stolenShare(
        processorTimes(() => text),
        before,
      ),
    ).toBe(0);
});

describe("the worst share that the host took", () => {
  /** A reading after each second of a machine with two processors, of which the host took some ticks. */
  const after = (...taken: readonly number[]) =>
    taken.reduce(
      (all, ticks) => [...all, { total: all.at(-1)!.total + 200, idle: 0, stolen: all.at(-1)!.stolen + ticks }],
      [{ total: 0, idle: 0, stolen: 0 }],
    );

  test("is that of any five seconds, however long the file ran before and after", () => {
    const spike = [0, 200, 200, 0, 0];
    const calm = Array.from({ length: 60 }, () => 0);
    expect(worstStolenShare(after(...calm, ...spike, ...calm))).toBe(0.4);
    expect(worstStolenShare(after(...spike, ...calm))).toBe(0.4);
    expect(worstStolenShare(after(...calm, 0, 0, 0, 200, 200))).toBe(0.4);
    expect(worstStolenShare(after(...calm))).toBe(0);
  });

  test("is that of the whole file, where it ran for less", () => {
    expect(worstStolenShare(after(100))).toBe(0.5);
    expect(worstStolenShare(after(200, 0, 0, 0))).toBe(0.25);
    expect(worstStolenShare(after())).toBe(0);
    expect(worstStolenShare([null, null])).toBe(0);
  });
});

describe("the bounds of a file that has to do with time", () => {
  const quiet = { ranMs: 1_000, waitedMs: 100, stolen: 0.01, startRatio: 1 };

  test("are as they stand on a quiet machine", () => {
    expect(slownessOf(quiet)).toBe(1);
    expect(slownessOf({ ...quiet, ranMs: 1, waitedMs: 20 })).toBe(1);
  });

  test("are wider where the processor is shared or the host takes it", () => {
    expect(slownessOf({ ...quiet, waitedMs: 1_000 })).toBeGreaterThan(4);
    expect(slownessOf({ ...quiet, startRatio: 3 })).toBeGreaterThan(8);
    expect(slownessOf({ ...quiet, stolen: 0.5 })).toBeGreaterThan(8);
  });
});

describe("the report of a file", () => {
  const end = "\n 2 pass\n 1 skip\n 0 fail\n 7 expect() calls\nRan 3 tests across 1 file. [12.00ms]\n";

  test("is what Bun counted, not what tests wrote", () => {
    expect(readReport(` 99 pass\n 5 fail\n(pass) a\n(skip) b (skipped: why)\n${end}`, 0)).toEqual({
      passed: 2,
      failed: 0,
      skipped: ["b (skipped: why)"],
      failures: [],
    });
  });

  test("names what was skipped once, though Bun repeats it where there is much", () => {
    expect(readReport(`(skip) b\n(pass) a\n\n1 tests skipped:\n(skip) b\n${end}`, 0).skipped).toEqual(["b"]);
  });

  test("counts failures and errors between tests, and one for a file that died, before it had counted or after", () => {
    expect(readReport(end.replace("0 fail", "2 fail\n 1 error"), 1)).toMatchObject({ passed: 2, failed: 3 });
    expect(readReport("(pass) a\n", 137)).toEqual({ passed: 0, failed: 1, skipped: [], failures: ["(pass) a"] });
    expect(readReport("", 0)).toMatchObject({ failed: 1 });
    expect(readReport(end, 139)).toMatchObject({ passed: 2, failed: 1 });
  });

  test("holds what was said of each failure, once, though Bun repeats it where there is much", () => {
    const printed = "test/x.test.ts:\n(pass) a\nerror: it is 2\n  at b.ts\n(fail) b [1.00ms]\n(fail) c\n";
    const { failures } = readReport(`${printed}\n2 tests failed:\n(fail) b [1.00ms]\n(fail) c\n${end.replace("0 fail", "2 fail")}`, 1);
    expect(failures).toEqual(["test/x.test.ts:\nerror: it is 2\n  at b.ts\n(fail) b [1.00ms]", "test/x.test.ts:\n(fail) c"]);
  });

  test("names the file of each failure where several share a process", () => {
    const printed = "test/x.test.ts:\n(pass) a\n\ntest/y.test.ts:\n(fail) b\n";
    expect(readReport(`${printed}${end.replace("0 fail", "1 fail")}`, 1).failures).toEqual(["test/y.test.ts:\n(fail) b"]);
    const died = "test/x.test.ts:\n(pass) a\n\ntest/y.test.ts:\n(pass) b\n";
    expect(readReport(died, 137).failures[0]).toStartWith("test/y.test.ts:\n");
    const good = { passed: 1, failed: 0, skipped: [], failures: [] };
    const shared = runOf(good, { files: ["test/x.test.ts", "test/y.test.ts", "test/z.test.ts"], reruns: 1 });
    expect(summarise([shared], whole)[0]).toContain("test/x.test.ts and 2 more files passed");
  });

  test("has its failures at the end of the run, above the line that counts", () => {
    const failed = { passed: 1, failed: 1, skipped: ["z"], failures: ["error\n(fail) b"] };
    expect(summarise([runOf(failed)], whole)).toEqual([
      "Skipped, and why:",
      "      1 z",
      "1 skipped",
      "Failed:\nerror\n(fail) b\n",
      "1 passed, 1 failed",
    ]);
  });

  test("says what was run again, what was left out, and, where there are many, which files took longest and how long all took", () => {
    const good = { passed: 1, failed: 0, skipped: [], failures: [] };
    expect(summarise([runOf(good, { reruns: 2 })], { ...whole, leftOut: ["a.test.ts", "b.test.ts"] })).toEqual([
      "Failed at first, and run again alone: test/x.test.ts passed at repetition 2",
      "Not run, because the time that SLUICE_TEST_MINUTES gives them was over: a.test.ts b.test.ts",
      "1 passed, 0 failed",
    ]);
    const files = Array.from({ length: 20 }, (_, at) => runOf(good, { files: [`${at}.test.ts`], seconds: at, stolen: 0.125 }));
    const many = summarise(files, whole);
    expect(many).toHaveLength(13);
    expect(many.slice(0, 2)).toEqual([
      "The slowest files, with their processor time, and the share of the processors that the host took in the worst five seconds:",
      "   19.0 s    0.5 s  13 % 19.test.ts",
    ]);
    expect(many.slice(-2)).toEqual(["20 files took 62 s, and 10 s of processor time", "20 passed, 0 failed"]);
  });

  test("ends with the line that counts, and says what was skipped and why, a group in one line", () => {
    const some = { passed: 3, failed: 0, skipped: [], failures: [] };
    expect(summarise([runOf(some), runOf({ ...some, failed: 1 })], whole)).toEqual(["6 passed, 1 failed"]);
    const skipped = ["z", "a > group (skipped: no server (here)) > one", "a > group (skipped: no server (here)) > two"];
    expect(summarise([runOf({ ...some, skipped })], whole)).toEqual([
      "Skipped, and why:",
      "      2 a > group (skipped: no server (here))",
      "      1 z",
      "3 skipped",
      "3 passed, 0 failed",
    ]);
  });
});

describe("a file and what it has started", () => {
  const started = async (script: string, options: Partial<GroupOptions>): Promise<GroupEnd & { readonly output: string }> => {
    let output = "";
    const onOutput = (bytes: Uint8Array): void => void (output += Buffer.from(bytes).toString());
    const { ended } = startGroup(["sh", "-c", script], { env: process.env, timeoutMs: 60_000, isOver: () => false, onOutput, ...options });
    return { ...(await ended), output };
  };
  const isRunning = (pid: string): boolean => {
    // One that has ended, and whose parent has not asked how, is not running.
    try {
      return !/^State:\s+Z/m.test(readFileSync(`/proc/${Number(pid)}/status`, "utf8"));
    } catch {
      return false;
    }
  };

  test("are killed when the time of the file is over, whatever they do with signals and its output", async () => {
    const { killed, output } = await started('sh -c "trap : TERM; echo \\$\\$; while :; do sleep 600; done" | cat', { timeoutMs: 500 });
    expect(killed).toBe("too long");
    await eventually("that it has ended", () => !isRunning(output));
  });

  test("are waited for only for a moment after it has ended, where they hold its output open", async () => {
    const { killed, output } = await started("sleep 600 & echo $!", { isOver: () => true, leftOverMs: 50 });
    expect(killed).toBe("left over");
    await eventually("that it has ended", () => !isRunning(output));
  });

  test("are left alone where they end by themselves", async () => {
    expect(await started("echo done", { isOver: () => true })).toMatchObject({ killed: null, output: "done\n" });
  });
});

describe("a run", () => {
  async function ran(
    files: Readonly<Record<string, string>>,
    env: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly output: string; readonly code: number }> {
    const folder = mkdtempSync(join(tmpdir(), "sluice-suite-"));
    try {
      const paths = Object.entries(files).map(([name, text]) => {
        writeFileSync(join(folder, name), `import { expect, test } from "bun:test";\n${text}`);
        return join(folder, name);
      });
      return await runner(paths, { env: { ...process.env, ...env } });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async function runner(
    paths: readonly string[],
    where: { readonly env?: Readonly<Record<string, string | undefined>>; readonly cwd?: string },
  ): Promise<{ readonly output: string; readonly code: number }> {
    const child = Bun.spawn([process.execPath, join(root, "scripts/run-tests.ts"), ...paths], { ...where, stdout: "pipe", stderr: "pipe" });
    const output = await new Response(child.stdout).text();
    return { output, code: await child.exited };
  }

  /** Says something, and goes on when the other has done so as well. */
  function meets(own: string, other: string): string {
    return `import { existsSync, writeFileSync } from "node:fs";
      test("meets", async () => {
        console.log("${own} begins");
        writeFileSync(import.meta.dir + "/${own}", "");
        while (!existsSync(import.meta.dir + "/${other}")) await new Promise((resolve) => setImmediate(resolve));
        console.log("${own} ends");
      });`;
  }

  test.skipIf(availableParallelism() < 2)(
    "has two files at a time, and keeps together what each says (skipped with one processor)",
    async () => {
      const { output, code } = await ran({ "one.test.ts": meets("one", "other"), "other.test.ts": meets("other", "one") });
      expect(output).toMatch(/one begins\none ends/);
      expect(output).toMatch(/other begins\nother ends/);
      expect(output).toEndWith("2 passed, 0 failed\n");
      expect(code).toBe(0);
    },
  );

  test("counts a file that dies among the failed, goes on with the others, and leaves no temporary files of any", async () => {
    const leaves = 'import { mkdtempSync } from "node:fs"; import { tmpdir } from "node:os"; mkdtempSync(`${tmpdir()}/left-`);';
    const place = mkdtempSync(join(tmpdir(), "sluice-place-"));
    const { output, code } = await ran(
      {
        "dies.test.ts": `${leaves} test("dies", () => process.kill(process.pid, "SIGKILL"));`,
        "good.test.ts": `${leaves} test("good", () => expect(1).toBe(1)); test.skip("bad (skipped: today)", () => {});`,
      },
      { TMPDIR: place },
    );
    expect(readdirSync(place)).toEqual([]);
    expect(output).toContain("dies.test.ts ended with SIGKILL\n");
    expect(output).toContain("Skipped, and why:\n      1 bad (skipped: today)\n1 skipped\nFailed:\n");
    expect(output).toEndWith("\n1 passed, 1 failed\n");
    expect(code).toBe(1);
  });

  /** A file whose test fails the first time that it runs. */
  const failsOnce = `import { existsSync, writeFileSync } from "node:fs";
      test("fails once", () => {
        const isFirst = !existsSync(import.meta.dir + "/ran");
        writeFileSync(import.meta.dir + "/ran", "");
        expect(isFirst).toBe(false);
      });`;

  test("repeats a file that failed beside another, alone, names it, and counts it as failed if it fails again", async () => {
    const { output, code } = await ran({
      "once.test.ts": failsOnce,
      "always.test.ts": 'test("always", () => expect(1).toBe(2));',
    });
    expect(output).toMatch(/run again alone: \S*once\.test\.ts passed at repetition 1\n/);
    // Where the host takes processors meanwhile, it is run again more than once.
    expect(output).toMatch(/run again alone: \S*always\.test\.ts failed at repetition [123]\n/);
    expect(output).toEndWith("\n1 passed, 1 failed\n");
    expect(code).toBe(1);
  });

  test("of everything repeats a file once that failed although it ran alone", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-suite-"));
    mkdirSync(join(folder, "test/unit"), { recursive: true });
    const tests = { once: failsOnce, always: 'test("always", () => expect(1).toBe(2));' };
    for (const [name, text] of Object.entries(tests)) {
      const head = '// Needs: alone. It is about that.\nimport { expect, test } from "bun:test";\n';
      writeFileSync(join(folder, `test/unit/${name}.test.ts`), head + text);
    }
    const { output } = await runner([], { cwd: folder });
    rmSync(folder, { recursive: true, force: true });
    expect(output).toContain("run again alone: test/unit/once.test.ts passed at repetition 1\n");
    expect(output).toMatch(/run again alone: test\/unit\/always\.test\.ts failed at repetition [123]\n/);
    // More than once only where the host took processors meanwhile.
    expect(output).not.toMatch(/always\.test\.ts failed alone: run again, alone \([23] of 3\)/);
    expect(output).toEndWith("\n1 passed, 1 failed\n");
  });

  test("begins no file after the time that it was given, names those left out, and is no success without any", async () => {
    const good = 'test("good", () => expect(1).toBe(1));';
    const { output, code } = await ran(
      { "a.test.ts": `${good} setTimeout(() => {}, 1);`, "b.test.ts": good },
      { SLUICE_TEST_MINUTES: "1e-9" },
    );
    expect(output).toMatch(
      /^Not run, because the time that SLUICE_TEST_MINUTES gives them was over: \S*a\.test\.ts \S*b\.test\.ts\n0 passed, 0 failed\n$/,
    );
    expect(code).toBe(1);
  });
});
