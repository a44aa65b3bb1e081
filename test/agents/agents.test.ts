// Needs: slow. It starts programs of hundreds of megabytes, which only `npm run test:agents` installs.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { ScriptedModel, type Fate, type Script } from "./scripted-model.ts";
import { thought, wires } from "./scripted-wires.ts";
import { taskSteps } from "./tools.ts";

const programMs = 120_000;
setDefaultTimeout(programMs + 30_000);

const claudeCode = join(import.meta.dir, "node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs");
const codex = join(import.meta.dir, "node_modules/@openai/codex/bin/codex.js");
const key = "sk-client-of-these-programs";
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

type Program = (folders: { readonly home: string; readonly task: string }, gateway: Gateway, model: string) => Promise<Started>;

interface Started {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const runClaudeCode: Program = async (_folders, gateway, model) => ({
  command: ["node", claudeCode, "-p", prompt, "--output-format", "json", "--dangerously-skip-permissions"],
  env: {
    ANTHROPIC_BASE_URL: gateway.url,
    ANTHROPIC_AUTH_TOKEN: key,
    ANTHROPIC_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_ERROR_REPORTING: "1",
    // It refuses to skip permissions for root otherwise, and tests may run as root in a container.
    IS_SANDBOX: "1",
  },
});

const runCodex: Program = async ({ home }, gateway, model) => {
  await mkdir(join(home, ".codex"));
  const settings = [
    `model = "${model}"`,
    'model_provider = "sluice"',
    'approval_policy = "never"',
    'sandbox_mode = "danger-full-access"',
    "check_for_update_on_startup = false",
    "[analytics]",
    "enabled = false",
    "[model_providers.sluice]",
    'name = "Sluice"',
    `base_url = "${gateway.url}/v1"`,
    'wire_api = "responses"',
    'env_key = "SLUICE_KEY"',
  ];
  await writeFile(join(home, ".codex/config.toml"), settings.join("\n"));
  return { command: ["node", codex, "exec", "--skip-git-repo-check", prompt], env: { CODEX_HOME: join(home, ".codex"), SLUICE_KEY: key } };
};

async function runTask(
  program: Program,
  model: string,
  fates: readonly Fate[],
  check: (outcome: Outcome) => void,
  wire = wires.openai,
): Promise<void> {
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
          models: [model],
          tier: index + 1,
        })),
      },
    });
    const { command, env } = await program({ home, task }, gateway, model);
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

/** `fewest`: how many thoughts come back. What a channel thought that failed later is returned to no other. */
function expectDone({ notes, copy, results, thoughts }: Outcome, fewest: number): void {
  expect(results).toHaveLength(3);
  expect(results[0]).toContain("colour = red");
  expect(results[2]).toContain("colour = blue");
  const returned = thoughts.filter((one) => one !== undefined);
  expect(returned.length).toBeGreaterThanOrEqual(fewest);
  // The programs keep what a broken stream said before it broke: one of them may stand there twice.
  for (const one of returned) expect(one).toContain(thought);
  expect([notes, copy]).toEqual([edited, edited]);
}

const agents: readonly (readonly [
  name: string,
  file: string,
  program: Program,
  models: readonly string[],
  said: (stdout: string) => string,
])[] = [
  [
    "Claude Code",
    claudeCode,
    runClaudeCode,
    ["scripted", "claude-sonnet-4-5"],
    (stdout) => (JSON.parse(stdout) as { readonly result: string }).result,
  ],
  // It declares other tools for models that it does not know, with a patch tool that takes text, and with one that takes a script.
  ["Codex", codex, runCodex, ["scripted", "gpt-5.5", "gpt-6-sol"], (stdout) => stdout.trim()],
];

describe.each(agents)("%s (skipped without npm run test:agents)", (_name, file, program, models, said) => {
  const isMissing = !existsSync(file);

  test.skipIf(isMissing).each(models)("reads a file, edits it, runs a command and answers, as a client of the model %s", async (model) => {
    await runTask(program, model, ["lives"], (outcome) => {
      expectDone(outcome, 3);
      expect(said(outcome.stdout)).toBe(finalText);
      expect(outcome.gateway.accessLines().map((line) => line["status"])).not.toContain(400);
    });
  });

  const others = Object.entries(wires).filter(([name]) => name !== "openai");
  test.skipIf(isMissing).each(others)("does the same over an upstream that speaks %s", async (_dialect, wire) => {
    await runTask(program, models[0]!, ["lives"], (outcome) => expectDone(outcome, 3), wire);
  });

  test.skipIf(isMissing).each(others)(
    "completes it although the first channel, which speaks %s, dies during a call",
    async (_dialect, wire) => {
      const fate: Fate = "dies while it calls the second tool";
      await runTask(program, models[0]!, [fate, "lives"], (outcome) => expectDone(outcome, 1), wire);
    },
  );

  const fates: Fate[] = ["breaks off before it says anything", "dies while it calls the second tool"];
  test.skipIf(isMissing).each(fates)("completes the task although the first channel %s", async (fate) => {
    await runTask(program, models[1]!, [fate, "lives"], (outcome) => {
      expectDone(outcome, fate === "dies while it calls the second tool" ? 1 : 3);
      expect(said(outcome.stdout)).toBe(finalText);
      const [first, second] = outcome.upstreams;
      expect(first!.broken).toBeGreaterThan(0);
      expect(second!.requests.length).toBeGreaterThan(0);
      // Before anything was said, the gateway itself asks the second channel. After that, the program has to ask again, once.
      const states = outcome.gateway.accessLines().map((line) => line["state"]);
      const interrupted = fate === "dies while it calls the second tool" ? ["interrupted"] : [];
      expect(states.filter((state) => state !== "complete")).toEqual(interrupted);
    });
  });
});
