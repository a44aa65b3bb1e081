import { describe, expect, test } from "bun:test";
import { dialects } from "../../../src/dialects/index.ts";
import { optionsOf, presetAddress, presetNamed, presets } from "../../../src/dialects/presets.ts";
import { checkAddress } from "../../../src/config/address.ts";
import { loadConfig } from "../../../src/config/load.ts";
import { readRuntimeChannel } from "../../../src/config/runtime-channel.ts";

const options = { baseUrl: null, resource: "res", region: "us-east-1", apiVersion: null };

const remote = presets.filter(({ local }) => !local);

describe("every preset", () => {
  test("has a name of its own, in a dialect that exists", () => {
    expect(new Set(presets.map(({ name }) => name)).size).toBe(presets.length);
    for (const { dialect } of presets) expect([...dialects.keys()]).toContain(dialect);
    expect(presetNamed("nobody")).toBeNull();
  });

  test.each(remote.map((preset) => [preset.name, preset] as const))("%s has an address that may be dialled", (_name, preset) => {
    const address = presetAddress(preset, options);
    if ("missing" in address) throw new Error(`it lacks ${address.missing}`);
    expect(checkAddress(address.baseUrl)).toMatchObject({ ok: true, url: address.baseUrl, secure: preset.needsKey });
    expect(address.baseUrl).not.toMatch(/[{}]/);
    expect(preset.operations).not.toEqual([]);
    for (const operation of preset.operations) expect(dialects.get(preset.dialect)?.[operation]).toBeDefined();
    expect(preset.forwardHeaders).toEqual(preset.forwardHeaders.map((name) => name.toLowerCase()));
    // Without a key in a header, several presets may share their credentials.
    expect(preset.needsKey && preset.auth === undefined ? preset.environment.key.length : 1).toBeGreaterThan(0);
  });

  test.each(remote.map((preset) => [preset.name, preset] as const))(
    "%s makes a channel with nothing but what it asks for",
    async (name, preset) => {
      const lines = [
        ...(preset.needsKey && preset.auth !== "google" ? [`api_key: ${preset.auth === "aws" ? "id:key" : "k"}`] : []),
        ...optionsOf(preset).map((option) => `${option}: here`),
        ...(preset.modelsPath === null ? ["models: [m]"] : []),
      ];
      const text = `channels:\n  - name: a\n    provider: ${name}\n${lines.map((line) => `    ${line}\n`).join("")}`;
      const loaded = await loadConfig({ path: null, text, env: {}, nofile: 20_000 });
      expect(loaded).toMatchObject({
        ok: true,
        warnings: preset.warning === null ? [] : [{ path: "channels[0].provider" }],
      });
      if (loaded.ok) expect(loaded.settings.channels[0]?.quirks).toEqual(preset.quirks);
    },
  );
});

describe("a provider that speaks more than one API", () => {
  const load = (dialect: string) =>
    loadConfig({
      path: null,
      text: `channels:\n  - name: a\n    provider: gemini\n    dialect: ${dialect}\n    api_key: k\n`,
      env: {},
      nofile: 20_000,
    });

  test("is asked in the one that the channel chooses, and keeps its name and so its prices", async () => {
    const loaded = await load("gemini");
    if (!loaded.ok) throw new Error(loaded.problems[0]?.reason);
    expect(loaded.settings.channels[0]).toMatchObject({
      provider: "gemini",
      dialect: "gemini",
      address: {
        baseUrl: "https://generativelanguage.googleapis.com/v1beta",
        chatPath: "/models/{model}:generateContent",
        authHeader: "x-goog-api-key",
        authPrefix: "",
      },
      models: { kind: "discovered", listedPrefix: "models/" },
    });
    expect(await load("openai")).toMatchObject({ ok: true });
  });

  test("is not asked in one that it does not speak", async () => {
    expect(await load("deepgram")).toMatchObject({ ok: false, problems: [{ path: "channels[0].dialect" }] });
  });
});

describe("an address with a region", () => {
  test.each([
    ["europe-west4", "https://europe-west4-aiplatform.googleapis.com/v1/projects/mine/locations/europe-west4"],
    ["global", "https://aiplatform.googleapis.com/v1/projects/mine/locations/global"],
    ["eu", "https://aiplatform.eu.rep.googleapis.com/v1/projects/mine/locations/eu"],
    ["us", "https://aiplatform.us.rep.googleapis.com/v1/projects/mine/locations/us"],
  ])("is that of %s", (region, baseUrl) => {
    for (const name of ["vertex", "vertex-anthropic"]) {
      const preset = presetNamed(name);
      if (preset === null) throw new Error("there is no such preset");
      expect(presetAddress(preset, { baseUrl: null, resource: "mine", region, apiVersion: null })).toMatchObject({ baseUrl });
    }
  });
});

describe("the models of this machine", () => {
  const text = "channels:\n  - name: here\n    provider: embedded\n";
  const localModels = [
    { id: "embedded/ear", upstream: "ear", operation: "transcription", description: "hears" },
    { id: "embedded/mouth", upstream: "mouth", operation: "speech", description: "speaks", voices: ["low", "high"] },
  ] as const;

  test("make a channel of the lowest tier that does with each model what it can, and says which voice it has", async () => {
    const loaded = await loadConfig({ path: null, text, env: {}, nofile: 20_000, localModels: () => localModels });
    if (!loaded.ok) throw new Error(loaded.problems[0]?.reason);
    const [channel] = loaded.settings.channels;
    expect(channel).toMatchObject({ tier: 1000 });
    expect([...channel!.modelVoices.keys()]).toEqual(["mouth"]);
    expect(channel!.modelVoices.get("mouth")).toMatchObject({ unknown: "replace", fallback: "low" });
    expect([...channel!.capabilities.modelOperations]).toEqual([
      ["ear", ["transcription"]],
      ["mouth", ["speech"]],
    ]);
    expect(channel!.models).toMatchObject({ kind: "map" });
  });

  test("that are not installed are named with the fix, and have no address to be given", async () => {
    expect(await loadConfig({ path: null, text, env: {}, nofile: 20_000 })).toMatchObject({
      ok: false,
      problems: [{ line: 3, path: "channels[0].provider", fix: expect.stringContaining("install Sluice with npm") }],
    });
    const addressed = await loadConfig({
      path: null,
      text: `${text}    base_url: http://x/v1\n`,
      env: {},
      nofile: 20_000,
      localModels: () => localModels,
    });
    expect(addressed).toMatchObject({ ok: false, problems: [{ line: 4, path: "channels[0].base_url" }] });
  });

  test("make a channel of the store as well, without a key or an address of its own", () => {
    const rules = { allowPrivate: false, localModels, own: [] };
    const read = readRuntimeChannel({ name: "here", provider: "embedded" }, [], rules);
    expect(read).toMatchObject({ ok: true, secrets: [], setting: { provider: "embedded", tier: 1000, models: { kind: "map" } } });
    expect(readRuntimeChannel({ name: "here", provider: "embedded" }, [], { ...rules, localModels: [] })).toMatchObject({
      ok: false,
      problems: [{ path: "provider", message: expect.stringContaining("install Sluice with npm") }],
    });
  });
});

test("an option that is missing is named, and an explicit address needs none", () => {
  const preset = presetNamed("azure-openai");
  if (preset === null) throw new Error("there is no such preset");
  expect(presetAddress(preset, { ...options, resource: null })).toEqual({ missing: "resource" });
  expect(presetAddress(preset, { ...options, resource: null, baseUrl: "https://x/openai/v1" })).toMatchObject({
    baseUrl: "https://x/openai/v1",
  });
});

test("a version in an address cannot add to the query", () => {
  const preset = presetNamed("azure-openai");
  if (preset === null) throw new Error("there is no such preset");
  expect(presetAddress(preset, { ...options, apiVersion: "a&b=c#d" })).toMatchObject({
    query: "?api-version=a%26b%3Dc%23d",
  });
});
