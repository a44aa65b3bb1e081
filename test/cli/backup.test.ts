import { Database } from "bun:sqlite";
import { expect, setDefaultTimeout, test } from "bun:test";
import { chownSync, copyFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CommandLine } from "../support/command-line.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { product } from "../support/product.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

interface Named {
  readonly id: string;
  readonly name: string;
  readonly key: string;
}

async function names(cli: CommandLine): Promise<readonly string[]> {
  return (await cli.json<Named[]>("keys", "list")).map(({ name }) => name);
}

test("a backup is restored, and the previous store is kept", async () => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "first");
  const file = join(cli.folder, "backup.db");
  const made = await cli.run(["backup", file]);
  expect([made.code, made.err]).toEqual([0, expect.stringContaining(join(cli.dataDir, "master-key"))]);
  expect([made.out.includes(file), statSync(file).mode & 0o077]).toEqual([true, 0]);
  await cli.json("keys", "create", "second");
  expect(await cli.run(["restore", file])).toMatchObject({ code: 64, err: expect.stringContaining("--yes") });
  expect((await names(cli)).toSorted()).toEqual(["first", "second"]);
  const restored = await cli.run(["restore", file, "--yes", "--json"]);
  const { replaced } = JSON.parse(restored.out) as { replaced: string };
  expect([restored.code, existsSync(replaced)]).toEqual([0, true]);
  expect(await names(cli)).toEqual(["first"]);
});

test.skipIf(process.getuid?.() !== 0)("what root restores or rotates belongs to the user of the gateway, which root is not", async () => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "first");
  const file = join(cli.folder, "backup.db");
  await cli.json("backup", file);
  const [store, masterKey] = ["sluice.db", "master-key"].map((name) => join(cli.dataDir, name)) as [string, string];
  const [uid, gid] = [65532, 65533];
  for (const path of [cli.dataDir, store, masterKey]) chownSync(path, uid, gid);
  await cli.json("restore", file, "--yes");
  expect(statSync(store)).toMatchObject({ uid, gid });
  expect(await cli.run(["master-key", "rotate", "--yes"])).toMatchObject({ code: 0 });
  expect(statSync(masterKey)).toMatchObject({ uid, gid });
  // With nothing to take the place of, what counts is whose folder it is.
  rmSync(store);
  await cli.json("restore", file, "--yes");
  expect(statSync(store)).toMatchObject({ uid, gid });
});

test("S51: a backup is encrypted with the master key, with a passphrase, or not at all, and a restore tells by itself", async () => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "canary-name");
  const [file, phrased, plain, words] = ["a.backup", "b.backup", "c.db", "words"].map((name) => join(cli.folder, name)) as [
    string,
    string,
    string,
    string,
  ];
  writeFileSync(words, "five quiet words in a row\n");
  expect(await cli.json<object>("backup", file)).toMatchObject({ file, encrypted_with: "master_key" });
  expect(await cli.json<object>("backup", phrased, "--passphrase-file", words)).toMatchObject({ encrypted_with: "passphrase" });
  expect(await cli.json<object>("backup", plain, "--plain")).toMatchObject({ encrypted_with: null });
  expect([file, phrased, plain].map((made) => readFileSync(made).includes("canary-name"))).toEqual([false, false, true]);
  for (const args of [[file], [phrased, "--passphrase-file", words], [plain]]) {
    expect(await cli.json<object>("restore", ...args, "--check")).toEqual({ checked: args[0], master_key: "fits" });
    await cli.json("keys", "create", "later");
    expect(await names(cli)).toHaveLength(2);
    await cli.json("restore", ...args, "--yes");
    expect(await names(cli)).toEqual(["canary-name"]);
  }
});

test("a backup that cannot be opened says what to do, and nothing is changed", async () => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "first");
  const [file, phrased, words, others] = ["a.backup", "b.backup", "words", "others"].map((name) => join(cli.folder, name)) as [
    string,
    string,
    string,
    string,
  ];
  writeFileSync(words, "five quiet words in a row");
  writeFileSync(others, "five other words in a row");
  await cli.json("backup", file);
  await cli.json("backup", phrased, "--passphrase-file", words);
  const said = async (...args: readonly string[]): Promise<string> => {
    const { code, err } = await cli.here(["restore", ...args, "--yes"]);
    expect(code).not.toBe(0);
    return err;
  };
  expect(await said(phrased)).toContain("--passphrase-file");
  expect(await said(phrased, "--passphrase-file", others)).toContain("does not decrypt");
  expect(await said(phrased, "--passphrase-file", join(cli.folder, "nowhere"))).toContain("cannot be read");
  expect(await cli.here(["backup", `${file}2`, "--passphrase-file", words, "--plain"])).toMatchObject({ code: 64 });
  writeFileSync(words, "two\nlines");
  expect(await cli.here(["backup", `${file}2`, "--passphrase-file", words])).toMatchObject({ code: 64 });
  writeFileSync(words, "short");
  expect(await cli.here(["backup", `${file}2`, "--passphrase-file", words])).toMatchObject({
    code: 64,
    err: expect.stringContaining("16 to"),
  });
  const whole = readFileSync(file);
  writeFileSync(file, whole.subarray(0, -10));
  expect(await said(file)).toContain("is truncated");
  whole[whole.length - 100]! ^= 1;
  writeFileSync(file, whole);
  expect(await said(file)).toContain("is damaged");
  expect(await names(cli)).toEqual(["first"]);
  whole[whole.length - 100]! ^= 1;
  writeFileSync(file, whole);
  const key = join(cli.dataDir, "master-key");
  const before = readFileSync(key, "utf8");
  writeFileSync(key, new Bun.CryptoHasher("sha256").update("other").digest("hex"));
  expect(await said(file)).toContain("another master key");
  expect(await cli.here(["backup", `${file}2`])).toMatchObject({ code: 1, err: expect.stringContaining("--passphrase-file") });
  rmSync(key);
  expect(await said(file)).toContain(key);
  writeFileSync(key, before);
  await cli.json("restore", file, "--yes");
});

test("a backup that opens without the master key says which one its store needs, before and after it is restored", async () => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "first");
  const [plain, phrased, words] = ["a.db", "b.backup", "words"].map((name) => join(cli.folder, name)) as [string, string, string];
  writeFileSync(words, "five quiet words in a row\n");
  await cli.json("backup", plain, "--plain");
  await cli.json("backup", phrased, "--passphrase-file", words);
  const key = join(cli.dataDir, "master-key");
  const own = readFileSync(key, "utf8");
  const other = "0123456789abcdef".repeat(4);
  const check = async (args: readonly string[], env: Record<string, string> = {}): Promise<string> => {
    const { code, out, err } = await cli.here(["restore", ...args, "--check"], { env });
    expect([code, out]).toEqual([0, expect.stringContaining("is a valid backup")]);
    expect(out.includes("can be restored here")).toBe(err === "");
    return err;
  };
  const checked = (env: Record<string, string> = {}): Promise<string> => check([plain], env);
  /** A passphrase takes its time on purpose, so it is tried where that makes a difference. */
  const phrasedSays = (): Promise<string> => check([phrased, "--passphrase-file", words]);
  expect(await checked()).toBe("");
  expect(await phrasedSays()).toBe("");
  writeFileSync(key, other);
  expect(await checked()).toContain(`and ${key} is another one`);
  expect(await phrasedSays()).toBe(await checked());
  writeFileSync(key, "no key at all");
  expect(await checked()).toContain(`and ${key} is another one`);
  rmSync(key);
  expect(await checked()).toContain(`there is none in ${key}`);
  expect(await checked({ SLUICE_MASTER_KEY: other })).toContain("and SLUICE_MASTER_KEY is another one");
  expect(await checked({ SLUICE_MASTER_KEY: own })).toBe("");
  expect(await cli.json<object>("restore", plain, "--yes")).toMatchObject({ master_key: "missing" });
  writeFileSync(key, own);
  expect((await cli.here(["master-key", "rotate", "--yes"])).code).toBe(0);
  const replaced = readdirSync(cli.dataDir).find((name) => name.startsWith("master-key.replaced-")) ?? "none";
  expect(await checked()).toContain(`copy that file to ${key}`);
  expect(await checked()).toContain(join(cli.dataDir, replaced));
  expect(await phrasedSays()).toBe(await checked());
  const restored = await cli.here(["restore", plain, "--yes"]);
  expect([restored.code, restored.err]).toEqual([0, expect.stringContaining(replaced)]);
  // What it said helps.
  expect((await cli.here(["keys", "list"])).code).toBe(78);
  copyFileSync(join(cli.dataDir, replaced), key);
  expect(await names(cli)).toEqual(["first"]);
});

test("a backup of a store whose master key comes by the environment is encrypted with that", async () => {
  const cli = new CommandLine();
  const env = { SLUICE_MASTER_KEY: "0123456789abcdef".repeat(4) };
  const file = join(cli.folder, "a.backup");
  await cli.here(["keys", "create", "first"], { env });
  expect((await cli.here(["backup", file], { env })).code).toBe(0);
  expect(await cli.here(["restore", file, "--yes"])).toMatchObject({ code: 1, err: expect.stringContaining("SLUICE_MASTER_KEY") });
  expect((await cli.here(["restore", file, "--yes"], { env })).code).toBe(0);
});

test("a backup never overwrites a file, and needs a store", async () => {
  const cli = new CommandLine();
  const file = join(cli.folder, "backup.db");
  expect(await cli.here(["backup", file])).toMatchObject({ code: 1, err: expect.stringContaining("There is no store") });
  expect(existsSync(cli.dataDir)).toBe(false);
  await cli.json("keys", "create", "first");
  expect(await cli.here(["backup", cli.config])).toMatchObject({ code: 64, err: expect.stringContaining("already exists") });
  expect(await cli.here(["restore", file, "--yes"])).toMatchObject({ code: 1, err: expect.stringContaining("There is no backup") });
  expect((await cli.here(["restore", cli.config, "--yes"])).code).not.toBe(0);
  expect(await names(cli)).toEqual(["first"]);
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const)("a backup that %s interrupts leaves nothing behind, and exits with %d", async (signal, code) => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "first");
  // As long as somebody else has the store for himself, the copy waits for it.
  using store = new Database(join(cli.dataDir, "sluice.db"));
  store.run("pragma journal_mode = delete");
  store.run("begin exclusive");
  const file = join(cli.folder, "backup.db");
  const child = Bun.spawn(["sh", product, "backup", "--plain", file, "--config", cli.config], {
    env: { PATH: process.env["PATH"] ?? "", HOME: cli.folder },
    stdout: "ignore",
    stderr: "pipe",
  });
  const parts = (): readonly string[] =>
    [cli.folder, cli.dataDir].flatMap((folder) => readdirSync(folder).filter((name) => name.includes(".part")));
  await eventually("the backup is begun", () => parts().length > 0, 10_000);
  child.kill(signal);
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([code, "Stopped.\n"]);
  expect([parts(), existsSync(file)]).toEqual([[], false]);
});

test("on a terminal there is a confirmation before a store is replaced", async () => {
  const cli = new CommandLine();
  const file = join(cli.folder, "backup.db");
  await cli.json("keys", "create", "first");
  await cli.json("backup", file);
  await cli.json("keys", "create", "second");
  expect(await cli.onTerminal(["restore", file], [["[y/N]", "\r"]])).toMatchObject({ code: 1 });
  expect(await names(cli)).toHaveLength(2);
  expect(await cli.onTerminal(["restore", file], [["[y/N]", "yes\r"]])).toMatchObject({ code: 0 });
  expect(await names(cli)).toHaveLength(1);
});

test("while a gateway runs, its store is backed up, but neither replaced nor given another master key", async () => {
  await using gateway = await startGateway({ config: { keys: [{ name: "own", key: "0123456789abcdefghij" }] } });
  const options = ["--config", join(gateway.directory, "sluice.yaml")];
  const cli = new CommandLine();
  const file = join(cli.folder, "backup.db");
  expect((await cli.run(["backup", file, ...options])).code).toBe(0);
  expect(await cli.run(["restore", file, "--yes", ...options])).toMatchObject({ code: 69, err: expect.stringContaining("Stop it first") });
  expect(await cli.run(["master-key", "rotate", "--yes", ...options])).toMatchObject({
    code: 1,
    err: expect.stringContaining("Stop all gateways"),
  });
});

test("the master key of the data folder is shown for a copy, and where there is none, it is said where it is", async () => {
  const cli = new CommandLine();
  expect(await cli.here(["master-key", "show"])).toMatchObject({ code: 1, err: expect.stringContaining("no master key in") });
  expect(existsSync(join(cli.dataDir, "master-key"))).toBe(false);
  await cli.json("keys", "create", "first");
  const shown = await cli.here(["master-key", "show"]);
  expect([shown.code, shown.out]).toEqual([0, readFileSync(join(cli.dataDir, "master-key"), "utf8")]);
  const given = await cli.here(["master-key", "show"], { env: { SLUICE_MASTER_KEY: "0123456789abcdef".repeat(4) } });
  expect([given.code, given.out, given.err]).toEqual([1, "", expect.stringContaining("SLUICE_MASTER_KEY")]);
});

test("the master key is replaced, and client keys keep working", async () => {
  const cli = new CommandLine();
  const { key } = await cli.json<Named>("keys", "create", "first");
  const masterKey = (): string => readFileSync(join(cli.dataDir, "master-key"), "utf8");
  const before = masterKey();
  expect(await cli.here(["master-key", "rotate"])).toMatchObject({ code: 64 });
  expect(masterKey()).toBe(before);
  const { code, err } = await cli.run(["master-key", "rotate", "--yes"]);
  expect([code, err, masterKey() === before]).toEqual([0, expect.stringContaining("backups do not contain it"), false]);
  expect((await cli.json<{ action: string }[]>("audit"))[0]?.action).toBe("master_key.rotate");
  await using gateway = await startGateway({ config: { data_dir: cli.dataDir, keys: [{ name: "own", key: "0123456789abcdefghij" }] } });
  const headers = { authorization: `Bearer ${key}` };
  await eventually("the key opens", async () => (await fetch(`${gateway.url}/v1/models`, { headers })).status === 200);
});

test("a master key of the environment is replaced by one from standard input", async () => {
  const cli = new CommandLine();
  const env = { SLUICE_MASTER_KEY: "0123456789abcdef".repeat(4) };
  const next = "fedcba9876543210".repeat(4);
  expect((await cli.here(["keys", "create", "first"], { env })).code).toBe(0);
  expect(await cli.here(["master-key", "rotate", "--yes"], { env, input: "too short" })).toMatchObject({ code: 78 });
  const { code, err } = await cli.here(["master-key", "rotate", "--yes"], { env, input: `${next}\n` });
  expect([code, err.includes(next)]).toEqual([0, false]);
  expect(await cli.here(["keys", "list"], { env })).toMatchObject({ code: 78 });
  expect(await cli.here(["keys", "list"], { env: { SLUICE_MASTER_KEY: next } })).toMatchObject({ code: 0 });
  expect(existsSync(join(cli.dataDir, "master-key"))).toBe(false);
});

test("for a PostgreSQL store, pg_dump is recommended", async () => {
  const cli = new CommandLine({ store: "postgres://127.0.0.1:1/sluice" });
  expect(await cli.here(["backup", join(cli.folder, "backup.db")])).toMatchObject({ code: 1, err: expect.stringContaining("pg_dump") });
});
