// Needs: models. It runs the models of this machine.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { blocksOf } from "../support/guides.ts";

const root = join(import.meta.dir, "../..");
const key = "readme-key-readme-key-readme-key-1";

/** The fenced blocks of one language, in order. */
function blocks(language: string): string[] {
  return blocksOf("README.md").flatMap((block) => (block.language === language ? [block.text] : []));
}

let main: Chaos;
let spare: Chaos;
let gateway: Gateway;
let directory: string;
let environment: Record<string, string>;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "sluice-readme-"));
  main = await startChaos({ name: "main", models: ["gpt-5-mini"] });
  spare = await startChaos({ name: "spare" });
  environment = { APP_KEY: key, OPENAI_API_KEY: "upstream-key", SPARE_URL: spare.url, SPARE_KEY: "spare-key" };
  // The README's own file, with the provider's address replaced by the upstream of this test.
  const yaml = blocks("yaml")[0]!.replace("127.0.0.1:4400", "127.0.0.1:0").replace("provider: openai", `base_url: ${main.url}`);
  const more = `  - name: direct\n    base_url: ${main.url}\n    api_key: upstream-key\n    models: [gpt-5-mini]\n  - name: here\n    provider: embedded\n`;
  gateway = await startGateway({ config: `admin: 127.0.0.1:0\n${yaml}${more}`, env: environment });
});

afterAll(async () => {
  await gateway.kill();
  await main.close();
  await spare.close();
  rmSync(directory, { recursive: true, force: true });
});

async function run(command: string[], cwd: string): Promise<{ readonly code: number; readonly out: string }> {
  const child = Bun.spawn(command, { cwd, env: { ...process.env, ...environment, KEY: key }, stdout: "pipe", stderr: "pipe" });
  const [out, error, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  return { code, out: code === 0 ? out : out + error };
}

const here = (text: string): string => text.replaceAll("http://127.0.0.1:4400", gateway.url);

test("the README shows a picture of each page of the console", () => {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const shown = [...readme.matchAll(/\(docs\/screenshots\/([a-z]+)\.webp\)/g)].map(([, page]) => page!);
  expect(shown).toEqual(expect.arrayContaining(readdirSync(join(root, "src/console/pages"))));
  for (const page of shown) expect(existsSync(join(root, `docs/screenshots/${page}.webp`)), page).toBe(true);
});

test("the README opens with the two commands that need nothing else", () => {
  expect(blocks("sh")[0]).toContain("npm install && npm start");
  expect(blocks("sh")[0]).toContain("npm install && npm test");
  const scripts = (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> }).scripts;
  for (const name of ["start", "test", "bench", "test:python", "sluice"]) expect(scripts[name]).toBeString();
});

/** The commands of a block that runs curl, against the gateway of this test. */
function curlOf(mark: string): string[] {
  const block = blocks("sh").find((one) => one.includes("curl") && one.includes(mark))!;
  const commands = here(block.slice(block.indexOf("curl"))).split("\n\n");
  return ["sh", "-c", `curl() { command curl -sS "$@"; }; ${commands.join("\n")}`];
}

test.skipIf(Bun.which("curl") === null)(
  "the README's first request gets an answer",
  async () => {
    const { code, out } = await run(curlOf("/v1/chat/completions"), directory);
    expect(code, out).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ object: "chat.completion", choices: [{ message: { role: "assistant" } }] });
  },
  60_000,
);

test.skipIf(Bun.which("curl") === null)(
  "what the README has spoken is transcribed to the same words",
  async () => {
    const { code, out } = await run(curlOf("/v1/audio/speech"), directory);
    expect(code, out).toBe(0);
    expect(out).toMatch(/^1\n00:00:00,\d{3} --> 00:00:0\d,\d{3}\n/);
    expect(out.toLowerCase()).toContain("channel the water takes");
  },
  120_000,
);

/** The gateway of this test in the place of the one that the README starts. */
function commandOf(block: string): string[] {
  const [, admin = ""] = /The admin API is at (\S+)\/admin\/api/.exec(gateway.text) ?? [];
  const commands = block
    .replaceAll("npm run --silent sluice --", `sh ${join(root, "bin/sluice")}`)
    .replaceAll("http://127.0.0.1:4401", admin);
  return ["sh", "-ec", `export SLUICE_CONFIG=${join(gateway.directory, "sluice.yaml")}; curl() { command curl -sS "$@"; }; ${commands}`];
}

test("the README's key is made once, is listed, and is served within its limits at once", async () => {
  const block = blocks("sh").find((one) => one.includes("keys create"))!;
  const { code, out } = await run(commandOf(block), gateway.directory);
  expect(code, out).toBe(0);
  const [made = ""] = /^sk-gw_\w{12}_\w{49}$/m.exec(out) ?? [];
  expect(out.split(made)).toHaveLength(2);
  expect(out).toMatch(/^\w{12} +laptop +- +active/m);
  expect(out).toMatch(/key\.create/);
  const answer = await eventualAnswer(made);
  expect(answer.headers.get("x-ratelimit-limit-requests")).toBe("60");
});

/** A running gateway notices a new key within a second. */
async function eventualAnswer(token: string): Promise<Response> {
  let answer: Response | null = null;
  await eventually("the new key opens the gateway", async () => {
    answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "embedded/stories-15m", max_tokens: 4, messages: [{ role: "user", content: "Once" }] }),
    });
    await answer.text();
    return answer.status === 200;
  });
  return answer!;
}

test.skipIf(Bun.which("curl") === null)("the README's question to the admin API is answered with what was used", async () => {
  // It waits until all that is written by now has reached the store.
  const brought = await run(commandOf("npm run --silent sluice -- usage"), gateway.directory);
  expect(brought.code, brought.out).toBe(0);
  const { code, out } = await run(commandOf(blocks("sh").find((one) => one.includes("accounts tokens create"))!), gateway.directory);
  expect(code, out).toBe(0);
  const { rows } = JSON.parse(out) as { rows: { key_name: string; calls: number }[] };
  expect(rows.find(({ key_name }) => key_name === "laptop")?.calls).toBe(1);
});

test("the README's example with the official client streams an answer", async () => {
  const file = join(root, "test", `.readme-${process.pid}.mjs`);
  writeFileSync(file, here(blocks("js")[0]!));
  try {
    const { code, out } = await run([process.execPath, file], root);
    expect(code, out).toBe(0);
    expect(out).toContain("main");
  } finally {
    rmSync(file);
  }
});

test("the README's configuration passes the README's check", async () => {
  const file = join(directory, "sluice.yaml");
  writeFileSync(file, blocks("yaml")[0]!);
  const command = blocks("sh")
    .find((block) => block.includes("-- check"))!
    .split("\n")[0]!;
  expect(command).toBe("npm run --silent sluice -- check sluice.yaml");
  const { code, out } = await run(["sh", join(root, "bin/sluice"), "check", file], directory);
  expect(code, out).toBe(0);
});

test("as the README says, the spare answers when the main channel cannot, and a header tells", async () => {
  main.behaviour = "fault:status@503";
  try {
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "fast", messages: [{ role: "user", content: "Hello" }] }),
    });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-sluice-channel")).toBe("spare");
    await answer.text();
  } finally {
    main.behaviour = null;
  }
});
