import { Database } from "bun:sqlite";
import { expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { configExitCode } from "../../src/cli/process/start-problem.ts";
import { migrations } from "../../src/store/migrations/index.ts";
import { CommandLine, type Outcome } from "../support/command-line.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const present = migrations.length;
const newer = present + 2;

/** What a later version would leave behind that took something away. */
function upgradeBeyond(file: string): void {
  const database = new Database(file);
  for (const number of [present + 1, newer]) {
    database.run("insert into migrations (number, name, at_ms, reads) values (?, ?, ?, ?)", [
      number,
      "later",
      Date.UTC(2027, 0, 31),
      number,
    ]);
  }
  database.close();
}

function contents(file: string): readonly unknown[] {
  const database = new Database(file, { readonly: true });
  try {
    return [database.query("select * from migrations").all(), database.query("select * from keys").all()];
  } finally {
    database.close();
  }
}

function expectRefusal({ code, out, err }: Outcome, what: string): void {
  const said = out + err;
  expect([code === 0, said]).toEqual([false, expect.stringContaining(what)]);
  for (const words of [
    "upgraded by a newer version of Sluice on 2027-01-31",
    `its schema is ${newer}, this version knows ${present}`,
    "Nothing was changed",
    "`sluice restore`",
    `sluice.db.before-${String(present + 1).padStart(4, "0")}`,
    "docs/upgrades.md",
  ])
    expect(said).toContain(words);
}

test("a store of a newer version is refused by every command, in words that tell the way back, and loses nothing", async () => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "first");
  const before = join(cli.folder, "before.backup");
  await cli.json("backup", before);
  const file = join(cli.dataDir, "sluice.db");
  upgradeBeyond(file);
  const bytes = readFileSync(file);
  const files = readdirSync(cli.dataDir).toSorted();

  const target = join(cli.folder, "made.backup");
  for (const args of [
    ["keys", "list"],
    ["keys", "create", "second"],
    ["usage"],
    ["audit"],
    ["prices", "list"],
    ["accounts", "list"],
    ["master-key", "rotate", "--yes"],
    ["backup", target],
    ["backup", target, "--plain"],
  ])
    expectRefusal(await cli.here(args), "The store was");
  for (const args of [["start"], ["start", "--workers", "2"]]) {
    const refused = await cli.run(args);
    expectRefusal(refused, "The store was");
    // A supervisor that started it again would get the same answer.
    expect(refused.code).toBe(configExitCode);
  }
  expect(existsSync(target)).toBe(false);
  expect(readFileSync(file).equals(bytes)).toBe(true);
  expect(
    readdirSync(cli.dataDir)
      .filter((name) => !/-(?:wal|shm)$/.test(name))
      .toSorted(),
  ).toEqual(files);

  // A backup that the newer version made.
  const theirs = join(cli.folder, "theirs.db");
  copyFileSync(file, theirs);
  for (const args of [["--check"], ["--yes"]]) expectRefusal(await cli.here(["restore", theirs, ...args]), `The store in ${theirs} was`);
  expect(contents(file)).toEqual(contents(theirs));

  // The way back that the message tells.
  const back = await cli.here(["restore", before, "--yes"]);
  expect([back.code, back.err]).toEqual([0, expect.any(String)]);
  expect((await cli.json<{ name: string }[]>("keys", "list")).map(({ name }) => name)).toEqual(["first"]);
});
