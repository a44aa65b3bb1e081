import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { root } from "../../scripts/source-tree.ts";
import { CommandLine } from "../support/command-line.ts";

setDefaultTimeout(60_000);

const published = (name: string): string => readFileSync(join(root, "schema", name), "utf8");
const portkey = resolve(import.meta.dir, "../fixtures/import/portkey.json");

/** The file that the first line of a configuration names for editors. */
function namedIn(file: string): string {
  const [, named = ""] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(readFileSync(file, "utf8")) ?? [];
  return join(dirname(file), named);
}

test.each([
  ["sluice init", ["init", "FILE", "--yes"], "sluice.schema.json"],
  ["sluice import", ["import", "portkey", portkey, "-o", "FILE"], "sluice.schema.json"],
  ["sluice config export", ["config", "export", "-o", "FILE"], "sluice-resources.schema.json"],
])("%s writes the schema that the first line of its file names, but not over another one", async (_, words, schema) => {
  const cli = new CommandLine();
  const folders = ["empty", "same", "other", "taken"].map((name) => join(cli.folder, name));
  const [empty = "", same = "", other = "", taken = ""] = folders;
  for (const folder of folders) mkdirSync(folder);
  const made = async (folder: string, more: readonly string[] = []) => {
    const file = join(folder, "made.yaml");
    const { code, err } = await cli.run([...words.map((word) => (word === "FILE" ? file : word)), ...more]);
    return { code, err, named: namedIn(file) };
  };
  writeFileSync(join(same, schema), published(schema));
  writeFileSync(join(other, schema), "{}");
  mkdirSync(join(taken, schema));
  for (const folder of [empty, same]) {
    const { code, err, named } = await made(folder);
    expect([code, named, readFileSync(named, "utf8")]).toEqual([0, join(folder, schema), published(schema)]);
    expect(err).toContain(`Editors complete and check it by the schema in ${named}.`);
  }
  const kept = await made(other);
  expect([kept.code, readFileSync(kept.named, "utf8")]).toEqual([0, "{}"]);
  expect(kept.err).toContain(`${kept.named} exists already, and is not the schema of this version`);
  expect(await made(taken)).toMatchObject({ code: 0, err: expect.stringContaining("could not be written (EISDIR)") });
  if (words[0] !== "init") return;
  await made(other, ["--force"]);
  expect(readFileSync(kept.named, "utf8")).toBe(published(schema));
});

test("sluice config export writes over no file, and no schema beside JSON", async () => {
  const cli = new CommandLine();
  const file = join(cli.folder, "resources.yaml");
  writeFileSync(file, "mine");
  const refused = await cli.here(["config", "export", "-o", file]);
  expect([refused.code, refused.err, readFileSync(file, "utf8")]).toEqual([64, expect.stringContaining("exists already"), "mine"]);
  const json = join(cli.folder, "resources.json");
  expect(await cli.here(["config", "export", "--json", "-o", json])).toMatchObject({ code: 0, out: "" });
  expect(JSON.parse(readFileSync(json, "utf8"))).toBeObject();
  expect(existsSync(join(cli.folder, "sluice-resources.schema.json"))).toBe(false);
});

test("sluice init asks whether to replace another schema", async () => {
  const cli = new CommandLine();
  const schema = join(cli.folder, "sluice.schema.json");
  writeFileSync(schema, "{}");
  const { code } = await cli.onTerminal(
    ["init", "asked.yaml"],
    [
      ["OpenAI API", "http://127.0.0.1:9/v1\r"],
      ["API key", "sk-typed-secret\r"],
      ["Models", "small\r"],
      ["Where clients connect", "\r"],
      ["admin account", "\r"],
      ["Replace it?", "y\r"],
    ],
  );
  expect([code, readFileSync(schema, "utf8")]).toEqual([0, published("sluice.schema.json")]);
});
