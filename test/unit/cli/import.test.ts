import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { loadConfig, type Settings } from "../../../src/config/load.ts";
import type { ImportedConfiguration } from "../../../src/cli/import/imported.ts";
import { importLitellm } from "../../../src/cli/import/litellm.ts";
import { importOneApi } from "../../../src/cli/import/one-api.ts";
import { importPortkey } from "../../../src/cli/import/portkey.ts";

const fixture = (name: string): unknown => parse(readFileSync(join(import.meta.dir, "../../fixtures/import", name), "utf8"));

/** The settings that the gateway makes of the result. */
async function loaded({ settings, variables }: ImportedConfiguration): Promise<Settings> {
  const env = Object.fromEntries(variables.map(({ name, sample }) => [name, sample]));
  const result = await loadConfig({ path: null, text: stringify(settings), env, nofile: 1024 });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.settings;
}

describe("a LiteLLM configuration", () => {
  const imported = importLitellm(fixture("litellm.yaml"));

  test("becomes channels, and deployments that share their settings share a channel", () => {
    expect(imported.settings["channels"]).toEqual([
      {
        name: "azure-openai",
        provider: "azure-openai",
        resource: "my-endpoint-eu",
        api_key: "${AZURE_API_KEY_EU}",
        api_version: "2025-01-01-preview",
        models: { "gpt-4o": "gpt-4o-eu", "gpt-4": "gpt-4o-eu" },
      },
      {
        name: "openai",
        provider: "openai",
        api_key: "${OPENAI_API_KEY}",
        timeouts: { first_byte: "30000ms", first_content: "10000ms" },
        headers: { "openai-organization": "org-42" },
        models: { "gpt-4o": "gpt-4o", "gpt-4o-mini": "gpt-4o-mini", "gpt-4": "gpt-4o" },
        weight: 2,
      },
      { name: "groq", provider: "groq", api_key: "${GROQ_API_KEY}", models: { claude: "llama-3.3-70b-versatile" } },
      {
        name: "10.0.0.5",
        base_url: "http://10.0.0.5:8000/v1",
        api_key: "${_10_0_0_5_API_KEY}",
        models: { local: "facebook/opt-125m" },
      },
      { name: "watsonx", api_key: "${WATSONX_KEY}", models: { odd: "granite" } },
      { name: "groq-2", provider: "groq", api_key: "${GROQ_API_KEY}", models: { "gpt-4o": "llama-3.3-70b-versatile" }, tier: 2 },
    ]);
  });

  test("keeps what a model costs that reads its cache and writes to it", async () => {
    const model_info = {
      input_cost_per_token: 3e-6,
      output_cost_per_token: 1.5e-5,
      cache_read_input_token_cost: 3e-7,
      cache_creation_input_token_cost: 3.75e-6,
      cache_creation_input_token_cost_above_1hr: 6e-6,
    };
    const litellm_params = { model: "anthropic/claude-sonnet-4-5", api_key: "os.environ/KEY" };
    const imported = importLitellm({ model_list: [{ model_name: "claude", litellm_params, model_info }] });
    const rates = { input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_hour: 6, output: 15 };
    expect(imported.settings["prices"]).toEqual([{ provider: "anthropic", model: "claude-sonnet-4-5", ...rates }]);
    expect((await loaded(imported)).prices).toHaveLength(1);
  });

  test("keeps retries, deadlines, prices and the master key", () => {
    expect(imported.settings).toMatchObject({
      keys: [{ name: "master", key: "${LITELLM_KEY}" }],
      routing: { attempts: 3, deadlines: { whole: "600000ms" } },
      prices: [{ provider: "openai", model: "gpt-4o", input: 2.5, output: 10 }],
    });
  });

  test("keeps the addresses of upstreams to which LiteLLM adds the version, with it", () => {
    const addressOf = (model: string, api_base: string): unknown => {
      const { settings } = importLitellm({ model_list: [{ model_name: "m", litellm_params: { model, api_base } }] });
      return (settings["channels"] as readonly Record<string, unknown>[])[0]?.["base_url"];
    };
    expect(addressOf("ollama/llama3.1", "http://localhost:11434")).toBe("http://localhost:11434/v1");
    expect(addressOf("ollama_chat/llama3.1", "http://ollama:11434/v1/")).toBe("http://ollama:11434/v1");
    expect(addressOf("anthropic/claude", "https://proxy.example.com/anthropic")).toBe("https://proxy.example.com/anthropic/v1");
    expect(addressOf("anthropic/claude", "https://proxy.example.com/v1/messages")).toBe("https://proxy.example.com/v1");
    expect(addressOf("azure/gpt-4o", "https://models.example.com/")).toBe("https://models.example.com/openai/v1");
    expect(addressOf("hosted_vllm/qwen", "http://vllm:8000/v1")).toBe("http://vllm:8000/v1");
  });

  test("takes addresses, versions and regions from the variables in which LiteLLM looks for them", async () => {
    const azure = {
      api_base: "os.environ/AZURE_API_BASE",
      api_version: "os.environ/AZURE_API_VERSION",
      api_key: "os.environ/AZURE_API_KEY",
    };
    const found = importLitellm({
      model_list: [
        { model_name: "a", litellm_params: { model: "azure/gpt-4o", ...azure } },
        { model_name: "b", litellm_params: { model: "ollama/llama3.1", api_base: "os.environ/OLLAMA_API_BASE" } },
        { model_name: "c", litellm_params: { model: "bedrock/nova", aws_region_name: "os.environ/AWS_REGION" } },
      ],
    });
    expect(found.settings["channels"]).toMatchObject([
      { base_url: "${AZURE_API_BASE}", api_version: "${AZURE_API_VERSION}", api_key: "${AZURE_API_KEY}" },
      { base_url: "${OLLAMA_API_BASE}/v1" },
      { region: "${AWS_REGION}" },
    ]);
    const names = ["AZURE_API_BASE", "AZURE_API_VERSION", "AZURE_API_KEY", "OLLAMA_API_BASE", "AWS_REGION"];
    expect(found.variables.map(({ name }) => name)).toEqual(names);
    // With values that are of use in their places.
    expect((await loaded(found)).channels.length).toBe(3);
  });

  test("says what it could not carry over", () => {
    const notes = imported.notes.join("\n");
    for (const named of [
      "rpm",
      "anthropic/*",
      "watsonx",
      "missing",
      "routing_strategy",
      "drop_params",
      "success_callback",
      "database_url",
    ]) {
      expect(notes).toContain(named);
    }
  });

  test("takes no secret along", () => {
    expect(JSON.stringify(imported)).not.toMatch(/literal-secret|secret-password/);
    expect(imported.variables.map(({ name }) => name)).toEqual([
      "AZURE_API_KEY_EU",
      "OPENAI_API_KEY",
      "GROQ_API_KEY",
      "_10_0_0_5_API_KEY",
      "WATSONX_KEY",
      "LITELLM_KEY",
    ]);
  });

  test("can be used once what is missing is given", async () => {
    const channels = (imported.settings["channels"] as readonly Record<string, unknown>[]).filter(({ name }) => name !== "watsonx");
    const settings = await loaded({ ...imported, settings: { ...imported.settings, channels } });
    expect(settings.channels.length).toBe(5);
  });
});

describe("a Portkey configuration", () => {
  const imported = importPortkey(fixture("portkey.json"));

  test("keeps the address of an Ollama, to which Portkey adds the version, with it", () => {
    const { settings } = importPortkey({ provider: "ollama", custom_host: "http://localhost:11434/" });
    expect(settings["channels"]).toMatchObject([{ provider: "ollama", base_url: "http://localhost:11434/v1" }]);
  });

  test("becomes tiers where targets follow one another, and weights where they share the load", () => {
    expect(imported.settings["channels"]).toEqual([
      { name: "openai", provider: "openai", api_key: "${OPENAI_API_KEY}", timeouts: { first_byte: "20000ms" }, models: "*", weight: 3 },
      { name: "groq-team-a", provider: "groq", api_key: "${GROQ_TEAM_A_API_KEY}", models: ["llama-3.3-70b-versatile"] },
      { name: "mistral", provider: "mistral", api_key: "${MISTRAL_API_KEY}", models: "*", tier: 2 },
      {
        name: "openai-2",
        provider: "openai",
        base_url: "https://llm.example.com/v1",
        api_key: "${OPENAI_API_KEY_2}",
        models: "*",
        tier: 3,
      },
    ]);
    expect(imported.settings["routing"]).toEqual({ attempts: 5 });
  });

  test("says what it could not carry over, takes no secret along, and can be used", async () => {
    const notes = imported.notes.join("\n");
    for (const named of ["on_status_codes", "cache", "temperature", "llama-3.3-70b-versatile"]) expect(notes).toContain(named);
    expect(JSON.stringify(imported)).not.toContain("literal-secret");
    expect((await loaded(imported)).channels.length).toBe(4);
  });
});

describe("a list of channels of One API", () => {
  const imported = importOneApi(fixture("one-api.json"));

  test("becomes channels, the highest priority first", () => {
    expect(imported.settings["channels"]).toEqual([
      {
        name: "openai-main",
        provider: "openai",
        api_key: "${OPENAI_MAIN_API_KEY}",
        tags: ["vip"],
        models: { "gpt-4o": "gpt-4o-2024-11-20", "gpt-4o-mini": "gpt-4o-mini" },
        weight: 5,
      },
      { name: "own", base_url: "https://llm.example.com/v1", api_key: "${OWN_API_KEY}", models: ["gpt-4o"], tier: 2 },
    ]);
  });

  test("says what it could not carry over, takes no secret along, and can be used", async () => {
    const notes = imported.notes.join("\n");
    for (const named of ["off", "spark", "tokens"]) expect(notes).toContain(named);
    expect(JSON.stringify(imported)).not.toMatch(/literal-secret|secret-\d/);
    expect((await loaded(imported)).channels.length).toBe(2);
  });
});

describe.each([
  ["litellm", importLitellm],
  ["portkey", importPortkey],
  ["one-api", importOneApi],
] as const)("anything else, as %s", (_, read) => {
  test.each(
    [null, 1, "text", [], {}, [null, 1, []], { model_list: [null, { model_name: 1 }], targets: [null, 7], data: [null, "x"] }].map(
      (document) => ({ document, text: JSON.stringify(document) }),
    ),
  )("$text becomes no channel", ({ document }) => {
    expect(read(document).settings["channels"]).toEqual([]);
  });
});
