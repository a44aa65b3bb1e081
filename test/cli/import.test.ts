import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CommandLine } from "../support/command-line.ts";

const fixtures = resolve(import.meta.dir, "../fixtures/import");

test("sluice import writes a file that sluice check accepts, and never overwrites one", async () => {
  const cli = new CommandLine();
  const made = join(cli.folder, "made.yaml");
  const first = await cli.run(["import", "portkey", join(fixtures, "portkey.json"), "--output", made]);
  expect(first).toMatchObject({ code: 0, out: "" });
  expect(first.err).toContain("4 channels were carried over");
  expect(first.err).toContain("OPENAI_API_KEY: the API key of openai");
  const env = { OPENAI_API_KEY: "one", OPENAI_API_KEY_2: "two", GROQ_TEAM_A_API_KEY: "three", MISTRAL_API_KEY: "four" };
  expect(await cli.run(["check", made], { env })).toMatchObject({ code: 0 });
  const text = readFileSync(made, "utf8");
  const second = await cli.run(["import", "litellm", join(fixtures, "litellm.yaml"), "--output", made]);
  expect(second.code).toBe(64);
  expect(second.err).toContain("exists already");
  expect(readFileSync(made, "utf8")).toBe(text);
  const absent = await cli.run(["import", "portkey", join(fixtures, "portkey.json"), "--output", join(cli.folder, "absent/made.yaml")]);
  expect([absent.code, absent.err]).toEqual([1, expect.stringContaining("(ENOENT). Its folder does not exist: create it")]);
});

test("sluice import prints the configuration, and everything else to standard error", async () => {
  const cli = new CommandLine();
  const { code, out, err } = await cli.run(["import", "one-api", join(fixtures, "one-api.json")]);
  expect(code).toBe(0);
  expect(out).toContain("channels:\n  - name: openai-main\n");
  expect(out).not.toContain("carried over");
  expect(err).toContain("2 channels were carried over.");
});

test.each([
  ["a file that does not exist", "missing.yaml", "no such file"],
  ["a file that is neither YAML nor JSON", "broken.yaml", "neither YAML nor JSON"],
  ["a file of something else", "other.yaml", "It has to be the config.yaml of a LiteLLM proxy"],
  ["a file of which nothing can be carried over", "patterns.yaml", "It has to be the config.yaml of a LiteLLM proxy"],
])("sluice import says so of %s", async (_, name, said) => {
  const cli = new CommandLine();
  await Bun.write(join(cli.folder, "broken.yaml"), "a: [1\nb: }{");
  await Bun.write(join(cli.folder, "other.yaml"), "root: x\n");
  await Bun.write(
    join(cli.folder, "patterns.yaml"),
    'model_list: [{ model_name: "anthropic/*", litellm_params: { model: "anthropic/*" } }]\n',
  );
  const { code, out, err } = await cli.run(["import", "litellm", name]);
  expect({ code, out }).toEqual({ code: 78, out: "" });
  expect(err).toContain(said);
});
