import { describe, expect, test } from "bun:test";
import { presetNamed } from "../../../src/dialects/presets.ts";
import { baseUrlOf, providerVariables, settingsFromEnvironment } from "../../../src/config/environment.ts";

function read(env: Record<string, string>): ReturnType<typeof settingsFromEnvironment> {
  return settingsFromEnvironment({ env, nofile: 20_000 });
}

function ready(env: Record<string, string>): Extract<ReturnType<typeof settingsFromEnvironment>, { ok: true }> {
  const result = read(env);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result;
}

describe("without a file", () => {
  test("an empty environment gives no channel, no key, and the list of variables that would help", () => {
    const { settings, found, lookedFor, warnings } = ready({});
    expect([settings.channels, settings.keys, found, warnings]).toEqual([[], [], [], []]);
    expect(lookedFor).toEqual(providerVariables);
    expect(lookedFor).toContain("OPENAI_API_KEY");
    expect(lookedFor).toContain("OLLAMA_HOST");
  });

  test("each provider whose key is set becomes a channel of that name with discovered models", () => {
    const { settings, found } = ready({
      OPENAI_API_KEY: " sk-1\n",
      GROQ_API_KEY: "gsk",
      EMPTY_API_KEY: "",
      XAI_API_KEY: "  ",
    });
    expect(settings.channels.map(({ name, tier, models }) => [name, tier, models.kind])).toEqual([
      ["openai", 1, "discovered"],
      ["groq", 1, "discovered"],
    ]);
    expect([...settings.secrets]).toEqual([
      ["openai#1", "sk-1"],
      ["groq#1", "gsk"],
    ]);
    expect(found).toEqual([
      { channel: "openai", variable: "OPENAI_API_KEY" },
      { channel: "groq", variable: "GROQ_API_KEY" },
    ]);
  });

  test("the first of a provider's variables that is set is used", () => {
    const { settings, found } = ready({ GOOGLE_API_KEY: "second", GEMINI_API_KEY: "first" });
    expect(new Set(settings.secrets.values())).toEqual(new Set(["first"]));
    expect(new Set(found.map(({ variable }) => variable))).toEqual(new Set(["GEMINI_API_KEY"]));
    expect(ready({ GOOGLE_API_KEY: "second" }).found[0]?.variable).toBe("GOOGLE_API_KEY");
  });

  test("a provider whose other API alone has audio gets a second channel for it", () => {
    const { settings, found } = ready({ GEMINI_API_KEY: "k" });
    expect(found.map(({ channel }) => channel)).toEqual(["gemini", "gemini-audio"]);
    expect(settings.channels).toMatchObject([
      { name: "gemini", dialect: "openai", capabilities: { operations: ["chat", "embedding", "image"] } },
      {
        name: "gemini-audio",
        provider: "gemini",
        dialect: "gemini",
        capabilities: {
          operations: ["transcription", "speech"],
          namedOperations: [
            { part: "-tts", operations: ["speech"] },
            { part: "", operations: ["transcription"] },
          ],
        },
      },
    ]);
  });

  test("keys of a cloud become a channel that signs, with the session of temporary ones", () => {
    const keys = { AWS_ACCESS_KEY_ID: "AKID", AWS_SECRET_ACCESS_KEY: "secret", AWS_REGION: "eu-west-1" };
    const { settings, found } = ready(keys);
    expect(found).toEqual([{ channel: "bedrock-converse", variable: "AWS_ACCESS_KEY_ID" }]);
    expect(settings.channels).toMatchObject([
      { auth: { kind: "aws", region: "eu-west-1" }, address: { baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com" } },
    ]);
    expect([...settings.secrets.values()]).toEqual(["AKID:secret:"]);
    expect([...ready({ ...keys, AWS_SESSION_TOKEN: "session" }).settings.secrets.values()]).toEqual(["AKID:secret:session"]);
  });

  test("an application becomes a channel with tokens, and a key goes before it", () => {
    const application = {
      AZURE_TENANT_ID: "t",
      AZURE_CLIENT_ID: "c",
      AZURE_CLIENT_SECRET: "s",
      AZURE_OPENAI_ENDPOINT: "https://r.example",
    };
    const { settings } = ready(application);
    expect(settings.channels).toMatchObject([{ name: "azure-openai", auth: { kind: "entra" } }]);
    expect([...settings.secrets.values()]).toEqual(["t:c:s"]);
    const keyed = ready({ ...application, AZURE_OPENAI_API_KEY: "k" }).settings;
    expect(keyed.channels[0]?.auth).toBeUndefined();
    expect([...keyed.secrets.values()]).toEqual(["k"]);
  });

  test("the file of a service account becomes a channel of its project", () => {
    const env = { GOOGLE_APPLICATION_CREDENTIALS: "/account.json", GOOGLE_CLOUD_PROJECT: "mine", GOOGLE_CLOUD_LOCATION: "global" };
    const account = { client_email: "robot@project.example", private_key: "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n" };
    const readSecretFile = (path: string): string | null => (path === "/account.json" ? JSON.stringify(account, null, 2) : null);
    const result = settingsFromEnvironment({ env, nofile: 20_000, readSecretFile });
    if (!result.ok) throw new Error(JSON.stringify(result.problems));
    expect(result.settings.channels).toMatchObject([
      {
        name: "vertex",
        auth: { kind: "google" },
        address: { baseUrl: "https://aiplatform.googleapis.com/v1/projects/mine/locations/global" },
      },
    ]);
  });

  test("credentials of a cloud alone mean nothing: other programs use them too", () => {
    const { settings, warnings } = ready({
      ...{ AWS_ACCESS_KEY_ID: "AKID", AWS_SECRET_ACCESS_KEY: "secret", GOOGLE_APPLICATION_CREDENTIALS: "/account.json" },
      ...{ AZURE_TENANT_ID: "t", AZURE_CLIENT_ID: "c", AZURE_CLIENT_SECRET: "s" },
    });
    expect([settings.channels, warnings]).toEqual([[], []]);
  });

  test("a provider that needs a second variable gives no channel and says which is missing", () => {
    const { settings, warnings } = ready({ AZURE_OPENAI_API_KEY: "k", AWS_BEARER_TOKEN_BEDROCK: "k" });
    expect(settings.channels).toEqual([]);
    expect(warnings.map(({ path, reason }) => [path, reason])).toEqual([
      ["AZURE_OPENAI_API_KEY", expect.stringContaining("AZURE_OPENAI_ENDPOINT")],
      ["AWS_BEARER_TOKEN_BEDROCK", expect.stringContaining("AWS_REGION or AWS_DEFAULT_REGION")],
    ]);
  });

  test("a provider without a list of models accepts any name", () => {
    const { settings } = ready({ AZURE_OPENAI_API_KEY: "k", AZURE_OPENAI_ENDPOINT: "https://r.openai.azure.com/" });
    expect(settings.channels[0]).toMatchObject({
      models: { kind: "any" },
      address: { baseUrl: "https://r.openai.azure.com/openai/v1", authHeader: "api-key" },
    });
  });

  test("a region becomes part of the address", () => {
    const { settings } = ready({ AWS_BEARER_TOKEN_BEDROCK: "k", AWS_DEFAULT_REGION: "eu-west-1" });
    expect(settings.channels[0]?.address.host).toBe("bedrock-mantle.eu-west-1.api.aws:443");
  });

  test("either a region or an address will do where the address is that of a region, and the address counts", () => {
    const channelOf = (env: Record<string, string>) => ready({ AZURE_SPEECH_KEY: "k", ...env }).settings.channels[0]?.address.baseUrl;
    expect(channelOf({ AZURE_SPEECH_REGION: "westeurope" })).toBe("https://westeurope.api.cognitive.microsoft.com");
    const endpoint = "https://mine.cognitiveservices.azure.com/";
    expect(channelOf({ AZURE_SPEECH_ENDPOINT: endpoint })).toBe("https://mine.cognitiveservices.azure.com");
    expect(channelOf({ AZURE_SPEECH_REGION: "x", AZURE_SPEECH_ENDPOINT: endpoint })).toBe("https://mine.cognitiveservices.azure.com");
    expect(ready({ AZURE_SPEECH_KEY: "k" }).warnings[0]).toMatchObject({
      path: "AZURE_SPEECH_KEY",
      reason: expect.stringContaining("AZURE_SPEECH_REGION or AZURE_SPEECH_ENDPOINT"),
    });
  });

  test("the client key is taken from SLUICE_KEY, and a short one prevents the start", () => {
    const { settings } = ready({ SLUICE_KEY: "0123456789abcdef" });
    expect(settings.keys.map(({ key, token }) => [key.name, token])).toEqual([["environment", "0123456789abcdef"]]);
    expect(read({ SLUICE_KEY: "short" })).toMatchObject({ ok: false, problems: [{ line: null, path: "SLUICE_KEY" }] });
  });

  test("an invalid value is reported by its variable and never quoted", () => {
    const result = read({ GROQ_API_KEY: "gsk", OPENAI_API_KEY: "sk with spaces CANARY" });
    expect(result).toMatchObject({ ok: false, problems: [{ path: "OPENAI_API_KEY" }] });
    expect(JSON.stringify(result)).not.toContain("CANARY");
    expect(read({ OLLAMA_HOST: "http://169.254.169.254" })).toMatchObject({
      ok: false,
      problems: [{ path: "OLLAMA_HOST" }],
    });
  });

  test("secrets are not in the channels, and change the version", () => {
    const [one, other] = [ready({ OPENAI_API_KEY: "CANARY-1" }), ready({ OPENAI_API_KEY: "CANARY-2" })];
    expect(JSON.stringify(one.settings.channels)).not.toContain("CANARY");
    expect(one.settings.version).not.toBe(other.settings.version);
  });
});

describe("the address of a local server", () => {
  test.each([
    ["127.0.0.1", "http://127.0.0.1:11434/v1"],
    ["127.0.0.1:5000", "http://127.0.0.1:5000/v1"],
    ["0.0.0.0", "http://127.0.0.1:11434/v1"],
    ["0.0.0.0:5000", "http://127.0.0.1:5000/v1"],
    [":5000", "http://127.0.0.1:5000/v1"],
    ["[::]:5000", "http://[::1]:5000/v1"],
    ["gpu.lan", "http://gpu.lan:11434/v1"],
    ["http://gpu.lan", "http://gpu.lan/v1"],
    ["http://gpu.lan:11434/", "http://gpu.lan:11434/v1"],
    ["https://gpu.example.com/ollama", "https://gpu.example.com/ollama/v1"],
    ["http://gpu.lan:11434/v1", "http://gpu.lan:11434/v1"],
  ])("%s is read as servers and clients read it", (value, expected) => {
    const preset = presetNamed("ollama");
    if (preset === null) throw new Error("there is no such preset");
    expect(baseUrlOf(value, preset)).toBe(expected);
    expect(ready({ OLLAMA_HOST: value }).settings.channels[0]?.address.baseUrl).toBe(expected);
  });

  test("that is invalid prevents the start", () => {
    expect(read({ OLLAMA_HOST: "not a host" })).toMatchObject({ ok: false, problems: [{ path: "OLLAMA_HOST" }] });
  });
});

describe("the variables of what stands in front of the gateway", () => {
  test("are settings, and their mistakes are told by their names", () => {
    const { settings } = ready({ SLUICE_TRUSTED_PROXIES: "10.0.0.0/8, unix" });
    expect(settings.service.trustedProxies).toMatchObject({ overUnixSocket: true, header: "x-forwarded-for" });
    expect(settings.tls).toBeNull();
    const wrong = read({ SLUICE_TLS_CERT_FILE: "/nowhere/tls.crt", SLUICE_TLS_KEY_FILE: "/nowhere/tls.key" });
    expect(wrong).toMatchObject({ ok: false, problems: [{ path: "SLUICE_TLS_CERT_FILE" }, { path: "SLUICE_TLS_KEY_FILE" }] });
    expect(read({ SLUICE_TLS_CERT_FILE: "/nowhere/tls.crt" })).toMatchObject({ ok: false, problems: [{ path: "SLUICE_TLS_KEY_FILE" }] });
    expect(read({ SLUICE_TRUSTED_PROXIES: "0.0.0.0/0" })).toMatchObject({
      ok: false,
      problems: [{ reason: "this would trust everybody" }],
    });
  });
});
