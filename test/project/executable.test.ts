// Needs: slow. It builds the executable; other files prove the same of the gateway as a script.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { migrations } from "../../src/store/migrations/index.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { elfMachine, machO } from "../support/executable-format.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { clientKey } from "../support/rig.ts";
import manifest from "../../package.json" with { type: "json" };

setDefaultTimeout(300_000);

const root = resolve(import.meta.dir, "../..");
const executable = join(root, "dist", `sluice-${process.platform}-${process.arch}`);

function build(...platforms: readonly string[]): number {
  const command = ["sh", join(root, "bin/bun"), join(root, "scripts/build/executable.ts"), ...platforms];
  return Bun.spawnSync(command, { cwd: root, stderr: "inherit" }).exitCode;
}

/** Where nothing of this repository is. */
const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));

function run(...args: readonly string[]): { readonly code: number | null; readonly out: string; readonly err: string } {
  const env = { PATH: "/usr/bin:/bin", HOME: folder };
  const { exitCode, stdout, stderr } = Bun.spawnSync([executable, ...args], { cwd: folder, env, stdin: "ignore" });
  return { code: exitCode, out: stdout.toString(), err: stderr.toString() };
}

describe("the gateway as one executable file", () => {
  let upstream: Chaos;
  let gateway: Gateway;

  beforeAll(async () => {
    expect(build("here")).toBe(0);
    upstream = await startChaos({ name: "main" });
    gateway = await startGateway({
      command: [executable],
      directory: folder,
      config: {
        admin: "127.0.0.1:0",
        keys: [{ name: "tester", key: clientKey }],
        channels: [{ name: "main", base_url: upstream.url, models: ["m", "voice"] }],
      },
    });
  });

  afterAll(async () => {
    await gateway?.kill();
    await upstream?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  test("has less than 120 MB", () => {
    expect(statSync(executable).size).toBeLessThan(120e6);
  });

  test("tells its version, and its help names the file that was started", () => {
    expect(run("--version")).toEqual({ code: 0, out: `${manifest.version}\n`, err: "" });
    expect(run("--help").out).toContain(`$ ${executable} keys create laptop`);
    expect(run("strat")).toMatchObject({ code: 64, err: expect.stringContaining("unknown command 'strat'") });
  });

  test("answers a chat, writes its receipt and makes keys in the store that it migrated", async () => {
    const reply = await chat(gateway, { model: "m" }, { key: clientKey });
    expect(reply.status).toBe(200);
    await gateway.waitForLog((line) => line["event"] === "call");
    const made = run("keys", "create", "laptop", "--config", "sluice.yaml");
    expect([made.code, made.out]).toEqual([0, expect.stringMatching(/sk-gw_/)]);
    expect(run("usage", "--config", "sluice.yaml", "--json").code).toBe(0);
    expect((await chat(gateway, { model: "m" }, { key: /sk-gw_\w+/.exec(made.out)?.[0] ?? "" })).status).toBe(200);
  });

  test("carries the console, although its sources are not there", async () => {
    const html = await (await fetch(`${gateway.adminUrl}/console`)).text();
    const [, path = ""] = /src="([^"]+\.js)"/.exec(html) ?? [];
    const response = await fetch(gateway.adminUrl + path);
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/javascript; charset=utf-8"]);
    expect(await response.text()).toContain("Sign in to Sluice");
  });

  test("says that it has no models, and where there are some", () => {
    const added = run("models", "add", "whisper-tiny");
    expect([added.code, added.err]).toEqual([1, expect.stringContaining("Install Sluice with npm")]);
  });

  test("serves one port with several processes", async () => {
    await using several = await startGateway({
      command: [executable],
      args: ["--workers", "2"],
      config: { keys: [{ name: "tester", key: clientKey }], channels: [{ name: "main", base_url: upstream.url, models: ["m"] }] },
    });
    await several.waitForLog((line) => line["event"] === "worker_ready" && line["worker"] === 2);
    expect((await chat(several, { model: "m" }, { key: clientKey })).status).toBe(200);
  });
});

/** The runtimes of other platforms come from there. */
const hasRegistry = Bun.spawnSync(["npm", "view", "npm", "version", "--fetch-retries=0"], { timeout: 20_000 }).exitCode === 0;
const skipped = hasRegistry ? "" : " (skipped: the npm registry cannot be reached)";

describe.skipIf(!hasRegistry)(`the executables of platforms that are not here${skipped}`, () => {
  const files: Record<string, Buffer> = {};
  /** A text of ours that the runtime does not have. */
  const inside = migrations.at(-1)!.name;

  beforeAll(() => {
    expect(build("linux-arm64", "darwin-arm64")).toBe(0);
    for (const platform of ["linux-arm64", "darwin-arm64"]) files[platform] = readFileSync(join(root, "dist", `sluice-${platform}`));
  });

  test.each(["linux-arm64", "darwin-arm64"])("%s has less than 120 MB, and the gateway is in it", (platform) => {
    const file = files[platform]!;
    expect(file.length).toBeLessThan(120e6);
    expect(file.includes(inside)).toBe(true);
  });

  test("linux-arm64 is a program for that machine", () => {
    expect(elfMachine(files["linux-arm64"]!)).toBe("arm64");
    expect(elfMachine(readFileSync(process.execPath))).toBe(process.platform === "linux" ? (process.arch as "x64" | "arm64") : null);
  });

  test("darwin-arm64 is a program for that machine, and its signature is that of what is in it, or macOS would kill it", () => {
    const file = files["darwin-arm64"]!;
    expect(machO(file)).toEqual({ machine: "arm64", signature: { coversAll: true, pages: expect.any(Number), wrongPages: 0 } });
    const changed = Buffer.from(file);
    const at = changed.lastIndexOf(inside);
    changed[at] = changed[at]! ^ 1;
    expect(machO(changed)?.signature?.wrongPages).toBe(1);
  });
});
