import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { CommandLine } from "../support/command-line.ts";
import { refusedPort, refusedUrl } from "../support/refused-port.ts";
import { makeCertificates } from "../support/tls.ts";

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
  expect([again.code, again.err]).toEqual([64, expect.stringContaining("--force")]);
  expect(readFileSync(file, "utf8")).toContain("provider: embedded");

  const looked = await cli.run(["doctor", "--offline", "--json", "--config", file]);
  const { checks } = JSON.parse(looked.out) as { readonly checks: readonly { readonly check: string; readonly status: string }[] };
  const of = (name: string): string | undefined => checks.find(({ check }) => check === name)?.status;
  expect([of("runtime"), of("configuration"), of("store"), of("data_dir"), of("port")]).toEqual(["ok", "ok", "ok", "ok", "ok"]);
  expect(looked.code).toBe(checks.some(({ status }) => status === "fail") ? 1 : 0);
});

test("sluice doctor asks each upstream without its key, and tells what is wrong with those that cannot be reached", async () => {
  const certificates = await makeCertificates();
  const heard: string[] = [];
  const answer = (request: Request): Response => {
    heard.push(JSON.stringify([request.url, ...request.headers]));
    return new Response("", { status: 404 });
  };
  const upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
  const secure =
    certificates === null ? null : Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer, tls: { ...certificates.selfSigned } });
  const channel = (name: string, base_url: string, more: object = {}) => ({ name, base_url, api_key: "sk-canary", models: ["m"], ...more });
  const cli = new CommandLine({
    allow_private: true,
    state: `redis://:password-canary@127.0.0.1:${refusedPort()}`,
    channels: [
      channel("sound", `http://127.0.0.1:${upstream.port}/v1`),
      channel("sound-too", `http://127.0.0.1:${upstream.port}/v2`),
      channel("closed", refusedUrl()),
      channel("unknown", "https://upstream.invalid/v1"),
      channel("proxied", "https://upstream.invalid/v1", { proxy: refusedUrl().replace("/v1", "") }),
      ...(secure === null ? [] : [channel("unsigned", `https://127.0.0.1:${secure.port}/v1`)]),
    ],
  });
  const { code, out } = await cli.run(["doctor", "--json"]);
  await Promise.all([upstream.stop(true), secure?.stop(true)]);
  const { checks } = JSON.parse(out) as { readonly checks: readonly { check: string; status: string; message: string; fix: string }[] };
  // A copy, because the matcher of the test runner writes into what it compares.
  const of = (name: string) => ({ ...checks.find(({ check, message }) => check === "channel" && message.startsWith(`${name}:`)) });
  expect(code).toBe(1);
  expect(of("sound, sound-too")).toMatchObject({ status: "ok" });
  expect(of("closed")).toMatchObject({ status: "fail", message: expect.stringContaining("no connection") });
  expect(of("unknown")).toMatchObject({ status: "fail", message: expect.stringContaining("upstream.invalid cannot be resolved") });
  expect(of("proxied")).toMatchObject({ status: "fail", fix: expect.stringContaining("Check that the proxy runs") });
  if (secure !== null) expect(of("unsigned")).toMatchObject({ status: "fail", fix: expect.stringContaining("NODE_EXTRA_CA_CERTS") });
  expect(checks.find(({ check }) => check === "state")).toMatchObject({ status: "fail", fix: expect.stringContaining("under state") });
  expect(checks.find(({ check }) => check === "clock")).toMatchObject({ status: "ok" });
  expect(heard).toHaveLength(1);
  expect(heard.join() + out).not.toContain("canary");
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
