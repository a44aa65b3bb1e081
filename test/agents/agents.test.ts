// Needs: slow. It starts programs of hundreds of megabytes, which only `npm run test:agents` and CI install.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { foundOrSkipped } from "../support/test-tools.ts";
import { key, modelOf, programs, type Program } from "./programs.ts";
import { ScriptedModel, type Fate, type Script } from "./scripted-model.ts";
import { taskSteps } from "./tools.ts";
import { wires } from "./wires/index.ts";
import { thought, type ScriptedWire } from "./wires/wire.ts";

const programMs = 120_000;
setDefaultTimeout(programMs + 30_000);

const prompt = "Task 4711: in notes.txt, change the colour from red to blue, and check it.";
const finalText = "The colour in notes.txt is blue now.";

/** One task, from an empty home to the answer of the program. */
interface Outcome {
  /** What the program printed. */
  readonly stdout: string;
  readonly notes: string;
  /** What the command wrote, after the edit. */
  readonly copy: string;
  /** The results of the three tools, as the model got them. */
  readonly results: readonly string[];
  /** What the model thought before it called them, as it got it back. */
  readonly thoughts: readonly (string | undefined)[];
  readonly upstreams: readonly ScriptedModel[];
  readonly gateway: Gateway;
}

interface Task {
  readonly program: Program;
  readonly way: string;
  readonly wire: ScriptedWire;
  /** What becomes of each channel, the preferred one first. */
  readonly fates: readonly Fate[];
}

async function runTask({ program, way, wire, fates }: Task, check: (outcome: Outcome) => void): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-agents-"));
  const [home, task] = [join(folder, "home"), join(folder, "task")];
  await mkdir(home);
  await mkdir(task);
  await writeFile(join(task, "notes.txt"), "size = 3\ncolour = red\n");
  const script: Script = { marker: prompt, steps: taskSteps(task), finalText };
  const upstreams = await Promise.all(fates.map((fate) => ScriptedModel.start(script, fate, wire)));
  try {
    await using gateway = await startGateway({
      config: {
        keys: [{ name: "program", key }],
        channels: upstreams.map(({ channel }, index) => ({
          name: `channel-${index + 1}`,
          ...channel,
          api_key: "sk-of-the-upstream",
          models: [modelOf(way)],
          tier: index + 1,
        })),
      },
    });
    const { command, env } = await program.start({ home, task }, gateway, way, prompt);
    const child = Bun.spawn([...command], {
      cwd: task,
      env: { PATH: process.env["PATH"] ?? "", HOME: home, ...env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      timeout: programMs,
    });
    const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    const code = await child.exited;
    if (code !== 0) throw new Error(`the program ended with ${code}:\n${stdout}\n${stderr}\nThe gateway:\n${gateway.text}`);
    const last = upstreams.flatMap(({ requests }) => requests).at(-1);
    const { results = [], thoughts = [] } = last ?? {};
    const notes = await readFile(join(task, "notes.txt"), "utf8");
    const copy = await readFile(join(task, "copy.txt"), "utf8").catch(() => "");
    check({ stdout, notes, copy, results, thoughts, upstreams, gateway });
  } finally {
    for (const upstream of upstreams) await upstream[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  }
}

const edited = "size = 3\ncolour = blue\n";

/** What a channel thought that failed later is returned to no other, so that fewer thoughts come back then. */
function expectDone({ program, wire, fates }: Task, { stdout, notes, copy, results, thoughts }: Outcome): void {
  expect(results).toHaveLength(3);
  expect(results[0]).toContain("colour = red");
  expect(results[2]).toContain("colour = blue");
  const returned = thoughts.filter((one) => one !== undefined);
  const returns = program.returnsThoughts === "all" || (program.returnsThoughts === "signed" && wire !== wires.cohere);
  if (returns) expect(returned.length).toBeGreaterThanOrEqual(fates.includes(dies) ? 1 : 3);
  // The programs keep what a broken stream said before it broke: one of them may stand there twice.
  for (const one of returned) expect(one).toContain(thought);
  expect([notes, copy]).toEqual([edited, edited]);
  expect(program.said(stdout)).toBe(finalText);
}

const breaksOff: Fate = "breaks off before it says anything";
const dies: Fate = "dies while it calls the second tool";

/** Before anything was said, the gateway itself asks the second channel. After that, the program has to ask again, once. */
function expectRescue(fate: Fate, { upstreams, gateway }: Outcome): void {
  const [first, second] = upstreams;
  expect(first!.broken).toBeGreaterThan(0);
  expect(second!.requests.length).toBeGreaterThan(0);
  const states = gateway.accessLines().map((line) => line["state"]);
  expect(states.filter((state) => state !== "complete")).toEqual(fate === dies ? ["interrupted"] : []);
}

interface Case {
  readonly promise: string;
  readonly task: Task;
  /** Also part of CI, which has few minutes for these programs: two of them with each dialect and with a channel that dies. */
  readonly inCi: boolean;
}

/** Which upstreams a program meets, in which way. */
function casesOf(program: Program): readonly Case[] {
  const { name, ways } = program;
  const [way = ""] = ways;
  const done = `${name} reads a file, edits it, runs a command and answers`;
  const all = Object.entries(wires);
  return [
    ...ways.map((each, index) => ({
      promise: `${done}, as a client of ${each}`,
      task: { program, way: each, wire: wires.openai, fates: ["lives" as const] },
      inCi: index === 0 && program.isQuick,
    })),
    ...all.slice(1).map(([dialect, wire]) => ({
      promise: `${done}, over an upstream that speaks ${dialect}`,
      task: { program, way, wire, fates: ["lives" as const] },
      inCi: program.asksAgain,
    })),
    ...all.slice(program.asksAgain ? 1 : all.length).map(([dialect, wire]) => ({
      promise: `${name} completes the task although the first channel, which speaks ${dialect}, ${dies}`,
      task: { program, way, wire, fates: [dies, "lives" as const] },
      inCi: false,
    })),
    ...(program.asksAgain ? [breaksOff, dies] : [breaksOff]).map((fate) => ({
      promise: `${name} completes the task although the first channel ${fate}`,
      task: { program, way: ways[1] ?? way, wire: wires.openai, fates: [fate, "lives" as const] },
      inCi: fate === dies,
    })),
  ];
}

const runsAll = process.env["SLUICE_TEST_AGENTS"] === "all";

describe("a coding agent (skipped without npm run test:agents)", () => {
  for (const { promise, task, inCi } of programs.flatMap(casesOf)) {
    if (!inCi && !runsAll) continue;
    const { file } = task.program;
    test.concurrent.skipIf(foundOrSkipped("agents", file, existsSync(file) ? file : null) === null)(promise, async () => {
      await runTask(task, (outcome) => {
        expectDone(task, outcome);
        const [fate] = task.fates;
        if (fate !== undefined && fate !== "lives") expectRescue(fate, outcome);
        expect(outcome.gateway.accessLines().map((line) => line["status"])).not.toContain(400);
      });
    });
  }
});
