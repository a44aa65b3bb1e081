import { describe, expect, test } from "bun:test";
import { settingsFromEnvironment } from "../../../src/config/environment.ts";
import { loadConfig, type Settings } from "../../../src/config/load.ts";
import { buildSnapshot } from "../../../src/config/snapshot.ts";
import type { Route } from "../../../src/channels/channel.ts";

async function settingsOf(text: string): Promise<Settings> {
  const loaded = await loadConfig({ path: null, text, env: {}, nofile: 20_000 });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.settings;
}

const none = new Map<string, readonly string[]>();

function shape(route: Route | null | undefined): string[][] | null {
  return route?.tiers.map((tier) => tier.map(({ deployment, credential }) => `${deployment.id} ${credential}`)) ?? null;
}

const three = await settingsOf(`
channels:
  - { name: late, base_url: http://c, tier: 7, models: [fast] }
  - { name: a, base_url: http://a, api_keys: [x, y], models: { fast: big, same: big, own: small } }
  - { name: b, base_url: http://b, weight: 3, models: [fast] }
`);

describe("routes", () => {
  const settings = three;
  const { routes, channels, version } = buildSnapshot(settings, none);

  test("combine the candidates of all channels for a model, with tiers in ascending order", () => {
    expect(shape(routes.get("fast"))).toEqual([["a/big a#1", "a/big a#2", "b/fast b#1"], ["late/fast late#1"]]);
    expect(routes.get("fast")?.size).toBe(4);
    expect([...routes.keys()].toSorted()).toEqual(["fast", "own", "same"]);
    expect([channels, version]).toEqual([settings.channels, settings.version]);
  });

  test("divide a channel's weight among its credentials", () => {
    expect(routes.get("fast")?.tiers[0]?.map(({ weight }) => weight)).toEqual([0.5, 0.5, 3]);
  });

  test("of two names for one upstream model share its deployment, and so its health", () => {
    const [one, other] = [routes.get("fast"), routes.get("same")].map((route) => route?.tiers[0]?.[0]?.deployment);
    expect(one).toBeDefined();
    expect(one).toBe(other as NonNullable<typeof one>);
  });

  test("have one deployment id for each upstream model of a channel", () => {
    const ids = [...routes.values()].flatMap((route) => route.tiers.flat().map(({ deployment }) => deployment));
    expect(new Set(ids.map(({ id }) => id)).size).toBe(new Set(ids).size);
  });
});

const alike = await settingsOf(`
channels:
  - { name: a, base_url: http://same, api_key: x, models: [m], timeouts: { idle: 1h } }
  - { name: b, base_url: http://same, api_key: y, models: [n], timeouts: { idle: 1h } }
  - { name: c, base_url: http://other, models: [m], timeouts: { idle: 2h }, headers: { x-own: yes }, capabilities: { context_tokens: 1000 } }
  - { name: d, provider: anthropic, api_key: z, models: [m], forward_headers: [x-own] }
`);

test("channels share the parts of their settings that are equal, and no others", () => {
  const [a, b, c, d] = alike.channels;
  const parts = ["address", "timeouts", "capabilities", "quirks", "headers", "forwardHeaders", "tags", "voices", "modelVoices"] as const;
  for (const part of parts) expect(a![part]).toBe(b![part] as never);
  expect(c).toMatchObject({
    address: { baseUrl: "http://other", host: "other:80" },
    timeouts: { idleMs: 7_200_000 },
    headers: { "x-own": "yes" },
    capabilities: { contextTokens: 1000 },
  });
  expect(a).toMatchObject({
    address: { baseUrl: "http://same" },
    timeouts: { idleMs: 3_600_000 },
    headers: {},
    capabilities: { contextTokens: null },
  });
  expect([a, b, c, d].map((one) => one?.dialect)).toEqual(["openai", "openai", "openai", "anthropic"]);
  expect(d?.forwardHeaders).toContain("x-own");
  expect(a?.forwardHeaders).not.toContain("x-own");
});

const discovered = await settingsOf("channels:\n  - { name: d, base_url: http://d }\n  - { name: e, base_url: http://e, models: [m] }");

describe("a discovered channel", () => {
  const settings = discovered;

  test("serves nothing until its models are discovered, then those of its list", () => {
    expect([...buildSnapshot(settings, none).routes.keys()]).toEqual(["m"]);
    const { routes } = buildSnapshot(settings, new Map([["d", ["m", "n", "n", "", "bad\nname", "x".repeat(300)]]]));
    expect([...routes.keys()]).toEqual(["m", "n"]);
    expect(shape(routes.get("m"))).toEqual([["d/m d#1", "e/m e#1"]]);
  });

  test("of a provider whose list prefixes each name is used without the prefix", async () => {
    const listed = await settingsOf("channels:\n  - { name: g, provider: gemini, api_key: k }");
    const { routes } = buildSnapshot(listed, new Map([["g", ["models/some-model", "other"]]]));
    expect(shape(routes.get("some-model"))).toEqual([["g/some-model g#1"]]);
    expect([...routes.keys()]).toEqual(["some-model", "other"]);
  });
});

const wildcards = await settingsOf(
  'channels:\n  - { name: named, base_url: http://a, models: [m] }\n  - { name: any, base_url: http://b, tier: 2, models: "*" }\n  - { name: too, base_url: http://c, models: "*" }',
);

describe("a channel that accepts any model", () => {
  const settings = wildcards;

  test("serves models that no channel names, and is not mixed into the routes of others", () => {
    const { routes, wildcard } = buildSnapshot(settings, none);
    expect(shape(routes.get("m"))).toEqual([["named/m named#1"]]);
    expect(shape(wildcard?.("anything/at:all"))).toEqual([["too/anything/at:all too#1"], ["any/anything/at:all any#1"]]);
  });

  test("is not asked for a model whose name shows that it is another provider's", () => {
    const env = {
      DEEPGRAM_API_KEY: "a",
      ELEVENLABS_API_KEY: "b",
      CARTESIA_API_KEY: "c",
      ASSEMBLYAI_API_KEY: "d",
      AZURE_SPEECH_KEY: "e",
      AZURE_SPEECH_REGION: "here",
    };
    const loaded = settingsFromEnvironment({ env, nofile: 20_000 });
    if (!loaded.ok) throw new Error(loaded.problems[0]?.reason);
    const { wildcard } = buildSnapshot(loaded.settings, none);
    const channelsFor = (model: string) =>
      wildcard?.(model)
        ?.tiers.flat()
        .map(({ deployment }) => deployment.channel.name);
    expect(["aura-2", "nova-3", "scribe_v1", "eleven_v3", "sonic-3.5", "universal-2", "MAI-Voice-2"].map(channelsFor)).toEqual([
      ["deepgram"],
      ["deepgram"],
      ["elevenlabs"],
      ["elevenlabs"],
      ["cartesia"],
      ["assemblyai"],
      ["azure-speech"],
    ]);
    expect(channelsFor("mine")).toEqual(["deepgram", "elevenlabs", "cartesia", "assemblyai", "azure-speech"]);
    const speaking = loaded.settings.channels.filter(({ capabilities }) => capabilities.operations.includes("speech"));
    expect(speaking.map(({ name }) => name)).toEqual(["deepgram", "elevenlabs", "cartesia", "azure-speech"]);
  });

  test("returns the same route for the same name, while it is cached", () => {
    const { wildcard } = buildSnapshot(settings, none);
    expect(wildcard?.("x")).toBe(wildcard?.("x") as Route);
  });

  test("caches a bounded number of names, the most recently used", () => {
    const { wildcard } = buildSnapshot(settings, none);
    const [often, once] = [wildcard?.("often"), wildcard?.("once")];
    for (let at = 0; at < 1500; at++) {
      wildcard?.(`name ${at}`);
      wildcard?.("often");
    }
    expect(wildcard?.("often")).toBe(often as Route);
    expect(wildcard?.("once")).not.toBe(once as Route);
  });

  test("rejects what cannot be a model", () => {
    const { wildcard } = buildSnapshot(settings, none);
    for (const name of ["", "a\u0000b", "a\nb", "x".repeat(257)]) expect(wildcard?.(name)).toBeNull();
  });

  test("is absent if there is none", async () => {
    expect(buildSnapshot(await settingsOf("channels:\n  - { name: a, base_url: http://a, models: [m] }"), none).wildcard).toBeNull();
  });
});

test("the cost of a snapshot grows with the number of channels, not with its square", async () => {
  const template = await settingsOf("channels:\n  - { name: c, base_url: http://a, models: { shared: m } }");
  const [channel] = template.channels;
  if (channel === undefined) throw new Error("there is no channel");
  const many = (count: number): Settings => ({
    ...template,
    channels: Array.from({ length: count }, (_, at) => ({
      ...channel,
      name: `c${at}`,
      tier: at % 5,
      credentials: [`c${at}#1`],
      models: {
        kind: "map",
        names: new Map([
          ["shared", "m"],
          [`own ${at}`, "m"],
        ]),
      },
    })),
  });
  const [small, large] = [many(500), many(10_000)];
  const costMs = (settings: Settings, times: number): number => {
    const start = performance.now();
    for (let at = 0; at < times; at++) buildSnapshot(settings, none);
    return performance.now() - start;
  };
  costMs(small, 20);
  expect(buildSnapshot(large, none).routes.get("shared")?.size).toBe(10_000);
  expect(buildSnapshot(large, none).routes.size).toBe(10_001);
  // As many channels in both, so that linear work costs the same and as much memory; quadratic work would cost twenty times as much.
  const ratios = Array.from({ length: 9 }, () => costMs(large, 1) / costMs(small, 20));
  expect(Math.min(...ratios)).toBeLessThan(8);
});
