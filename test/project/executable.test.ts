// Needs: slow. It builds the executable; other files prove the same of the gateway as a script.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { clientKey } from "../support/rig.ts";
import manifest from "../../package.json" with { type: "json" };

setDefaultTimeout(300_000);

const root = resolve(import.meta.dir, "../..");
const executable = join(root, "dist", `sluice-${process.platform}-${process.arch}`);

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
    const built = Bun.spawnSync(["sh", join(root, "bin/bun"), join(root, "scripts/build/executable.ts"), "here"], {
      cwd: root,
      stderr: "inherit",
    });
    expect(built.exitCode).toBe(0);
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
