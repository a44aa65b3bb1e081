import { expect, test } from "bun:test";
import { configurationText, variablesOf, type InitAnswers } from "../../../src/cli/init/configuration-text.ts";
import { answersTo } from "../../../src/cli/init/questions.ts";
import type { InitRequest } from "../../../src/cli/init/arguments.ts";
import { loadConfig } from "../../../src/config/load.ts";
import { nearest } from "../../../src/config/findings/nearest.ts";
import { presets } from "../../../src/dialects/presets.ts";

const answers: InitAnswers = {
  preset: null,
  baseUrl: "https://llm.example/v1",
  resource: null,
  region: null,
  key: { kind: "variable", name: "LLM_KEY" },
  models: ["small", "yes", "1.5", "a b", "${HOME}"],
  listen: "0.0.0.0:8000",
  dataDir: "./data",
};

async function loaded(text: string, env: Readonly<Record<string, string>>) {
  const result = await loadConfig({ path: "/tmp/sluice.yaml", text, env, nofile: 1024, localModels: () => [] });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.settings;
}

test("what was answered is what the configuration says, whatever characters it has", async () => {
  const text = configurationText(answers);
  expect(text).toStartWith("# yaml-language-server: $schema=");
  const { channels, listen, admin, secrets } = await loaded(text, { LLM_KEY: "a-secret-of-the-upstream" });
  expect([listen.port, admin]).toMatchObject([8000, { host: "127.0.0.1", port: 8001 }]);
  expect(channels[0]?.address.baseUrl).toBe("https://llm.example/v1");
  for (const model of answers.models ?? []) expect(Bun.inspect(channels[0]?.models)).toContain(`"${model}"`);
  expect([...secrets.values()]).toEqual(["a-secret-of-the-upstream"]);
});

test.each(presets.filter(({ local }) => !local).map((preset) => [preset.name, preset] as const))(
  "a configuration for %s can be used once its variables are set",
  async (_, preset) => {
    const place = { resource: "my-resource", region: "eu-west-1", baseUrl: null };
    const needed = { resource: preset.baseUrl.includes("{resource}"), region: preset.baseUrl.includes("{region}") };
    const complete: InitAnswers = {
      ...answers,
      ...place,
      preset,
      resource: needed.resource ? place.resource : null,
      region: needed.region ? place.region : null,
      key: preset.needsKey ? { kind: "usual" } : { kind: "none" },
      models: ["m"],
    };
    const env = Object.fromEntries(variablesOf(complete).map((name) => [name, "0123456789abcdef"]));
    // The file with a service account is the operator's.
    const text = configurationText(complete);
    if (!text.includes("api_key_file:")) expect((await loaded(text, env)).channels[0]?.provider).toBe(preset.name);
  },
);

const request: InitRequest = {
  file: "sluice.yaml",
  provider: null,
  baseUrl: null,
  resource: null,
  region: null,
  apiKeyEnv: null,
  apiKeyFile: null,
  models: null,
  listen: null,
  dataDir: "./data",
  adminAccount: null,
  yes: false,
  force: false,
  json: false,
};

/** A person who types these answers; secrets are typed without echo. */
function person(typed: readonly string[], secret = "") {
  const rest = [...typed];
  const said: string[] = [];
  const terminal = {
    isInteractive: true,
    print: () => {},
    say: (text: string) => void said.push(text),
    progress: () => {},
    confirm: async () => false,
    ask: async () => rest.shift() ?? "",
    secret: async () => secret,
  };
  return { terminal, said };
}

test("a mistyped provider is asked for again, with the one that was meant", async () => {
  const { terminal, said } = person(["olama", "ollama", "", "", ""]);
  const { answers: given, key } = await answersTo(request, { terminal, env: {}, nearest });
  expect([given.preset?.name, key, given.models, given.listen]).toEqual(["ollama", { kind: "none" }, null, "127.0.0.1:4400"]);
  expect(said.join("\n")).toContain('Did you mean "ollama"?');
});

test("a key that is typed is kept out of the configuration, and an empty one means the provider's variable", async () => {
  const who = (secret: string) => ({ terminal: person(["deepseek"], secret).terminal, env: {}, nearest });
  expect((await answersTo(request, who("typed-secret"))).key).toEqual({ secret: "typed-secret" });
  expect((await answersTo(request, who(""))).key).toEqual({ kind: "usual" });
});

test("with --yes nobody is asked: the provider is the one whose key is set, else this machine", async () => {
  const silent = {
    ...person([]).terminal,
    ask: () => Promise.reject(new Error("asked")),
    secret: () => Promise.reject(new Error("asked")),
  };
  const yes = { ...request, yes: true };
  const chosen = async (env: Readonly<Record<string, string>>) =>
    (await answersTo(yes, { terminal: silent, env, nearest })).answers.preset?.name;
  expect(await chosen({ DEEPSEEK_API_KEY: "x" })).toBe("deepseek");
  expect(await chosen({})).toBe("embedded");
});

test("a key on the command line is refused: others can read it there", () => {
  const given = { ...request, yes: true, apiKeyEnv: "sk-live-1234" };
  expect(answersTo(given, { terminal: person([]).terminal, env: {}, nearest })).rejects.toThrow("not the key itself");
});
