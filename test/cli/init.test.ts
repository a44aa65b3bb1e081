import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { CommandLine } from "../support/command-line.ts";

setDefaultTimeout(60_000);

const password = "correct horse battery staple";

test("sluice init writes a file that works, creates the account, overwrites nothing, and doctor finds it in order", async () => {
  const cli = new CommandLine();
  const file = join(cli.folder, "new.yaml");
  const unasked = await cli.run(["init", file]);
  expect([unasked.code, unasked.err]).toEqual([64, expect.stringContaining("--api-key-env NAME")]);
  expect(existsSync(file)).toBe(false);

  const listen = ["--listen", "127.0.0.1:0"];
  const made = await cli.run(["init", file, "--yes", ...listen, "--admin-account", "ada"], { input: password });
  expect([made.code, made.err]).toEqual([0, expect.stringContaining(`sluice start --config ${file}`)]);
  expect(JSON.parse((await cli.run(["accounts", "list", "--json", "--config", file])).out)).toMatchObject([{ name: "ada", role: "admin" }]);

  const again = await cli.run(["init", file, "--yes", ...listen, "--provider", "ollama"]);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("--force")]);
  expect(readFileSync(file, "utf8")).toContain("provider: embedded");

  const looked = await cli.run(["doctor", "--offline", "--json", "--config", file]);
  const { checks } = JSON.parse(looked.out) as { readonly checks: readonly { readonly check: string; readonly status: string }[] };
  const of = (name: string): string | undefined => checks.find(({ check }) => check === name)?.status;
  expect([of("configuration"), of("store"), of("data_dir"), of("port")]).toEqual(["ok", "ok", "ok", "ok"]);
  expect(looked.code).toBe(checks.some(({ status }) => status === "fail") ? 1 : 0);
});

test("sluice init asks a person, and stores a typed key where only its owner can read it", async () => {
  const cli = new CommandLine();
  const { code, out } = await cli.onTerminal(
    ["init", "asked.yaml"],
    [
      ["OpenAI API", "http://127.0.0.1:9/v1\r"],
      ["API key", "sk-typed-secret\r"],
      ["Models", "small, large\r"],
      ["Where clients connect", "\r"],
      ["admin account", "\r"],
    ],
  );
  expect([code, out]).toEqual([0, expect.stringContaining("Next:")]);
  expect(out).not.toContain("sk-typed-secret");
  const text = readFileSync(join(cli.folder, "asked.yaml"), "utf8");
  expect(text).toContain("models: [small, large]");
  expect(text).not.toContain("sk-typed-secret");
  expect(statSync(join(cli.folder, "upstream.key")).mode & 0o777).toBe(0o600);
  expect((await cli.run(["check", join(cli.folder, "asked.yaml")])).code).toBe(0);
});
