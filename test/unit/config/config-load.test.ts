import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultPaths } from "../../../src/dialects/presets.ts";
import { shownValue } from "../../../src/config/findings/shown-value.ts";
import { loadConfig, renderProblem, type ConfigSource, type Loaded, type Problem, type Settings } from "../../../src/config/load.ts";
import { operations } from "../../../src/operations/operation.ts";
import { priceFieldNames, priceFields } from "../../../src/usage/price-fields.ts";
import { anyText, numRuns } from "../../support/properties.ts";

const env = { APP_KEY: "client-key-0123456789", OPENAI_API_KEY: "sk-upstream-secret", EMPTY: "", SPACED: "two words" };

/** Properties take a second or two; a busy machine may need many times that. */
const propertyMs = 120_000;

function load(text: string, more: Partial<ConfigSource> = {}): Promise<Loaded> {
  return loadConfig({ path: "sluice.yaml", text, env, nofile: 20_000, nowMs: Date.parse("2026-11-15"), ...more });
}

async function settingsOf(text: string, more: Partial<ConfigSource> = {}): Promise<Settings> {
  const loaded = await load(text, more);
  if (!loaded.ok) throw new Error(loaded.problems.map((problem) => renderProblem("sluice.yaml", problem)).join("\n"));
  return loaded.settings;
}

async function problemsOf(text: string, more: Partial<ConfigSource> = {}): Promise<readonly Problem[]> {
  const loaded = await load(text, more);
  return loaded.ok ? [] : loaded.problems;
}

async function warningsOf(text: string): Promise<readonly Problem[]> {
  const loaded = await load(text);
  return loaded.ok ? loaded.warnings : [];
}

/** A channel with one more line, so that a mistake can stand on line 5. */
function channelWith(line: string): string {
  return `channels:\n  - name: main\n    base_url: https://up.example.com/v1\n    models: [m]\n    ${line}\n`;
}

function firstChannel(settings: Settings): Settings["channels"][number] {
  const [channel] = settings.channels;
  if (channel === undefined) throw new Error("there is no channel");
  return channel;
}

const contract = `listen: 127.0.0.1:4400        # the data plane
admin: 127.0.0.1:4401         # admin API and console: a listener of its own, or \`off\`
data_dir: ./data
store: sqlite                 # or postgres://…
state: memory                 # or redis://… (needed only with several replicas)

keys:                         # more are made with \`sluice keys create\`, the admin API or the console
  - name: app
    key: \${APP_KEY}
    models: [fast, whisper-1]         # default: every model
    operations: [chat]                # default: all
    limits: { rpm: 600, tpm: 200000, concurrency: 32, budget_usd: 50, budget_period: month }
    expires: 2027-01-01

channels:
  - name: main
    provider: openai          # a preset: dialect, address and quirks. Or name them: dialect: openai, base_url: https://…/v1
    api_key: \${OPENAI_API_KEY}        # api_keys: [a, b, c] makes it a pooled channel
    models: { fast: gpt-5-mini, whisper-1: whisper-1 }   # client's name -> upstream's; a list where they are equal; absent: discovered
    tier: 1                   # tiers are tried in order; channels of one tier share by weight and health
    weight: 1
    max_tokens_ceiling: 16384 # pooled channels have a default ceiling
    timeouts: { connect: 5s, first_content: 60s, idle: 120s, total: 30m }
    quota: acme-org           # channels that share an account share its cool-down
    capabilities:             # what the preset does not know, per channel
      prefill: true           # continues an assistant message that ends the conversation
      context_tokens: 128000
      transcription_formats: [json, verbose_json]
      speech_formats: [pcm, mp3]
    voices: { alloy: af_heart }

routing: { attempts: 3, hedge_after: 10s, rescue: error }   # rescue: error | continue
`;

describe("the example file", () => {
  test("is read completely", async () => {
    const settings = await settingsOf(contract);
    expect(settings.listen).toEqual({ host: "127.0.0.1", port: 4400 });
    expect(settings.admin).toEqual({ host: "127.0.0.1", port: 4401 });
    expect(settings.routing).toEqual({
      attemptsMax: 3,
      hedgeAfterMs: 10_000,
      rescue: "error",
      streamDeadlineMs: 120_000,
      wholeDeadlineMs: 600_000,
      waitMs: 0,
    });
    expect(settings.keys).toEqual([
      {
        key: {
          id: "file:app",
          name: "app",
          models: ["fast", "whisper-1"],
          operations: ["chat"],
          channels: null,
          expiresMs: Date.parse("2027-01-01T00:00:00Z"),
          splits: { audio: false, input: false },
          group: null,
          limits: {
            requests: 600,
            tokens: 200_000,
            audioSeconds: null,
            characters: null,
            concurrency: 32,
            budget: { nanos: 50_000_000_000, period: "month" },
            budgets: [],
            models: [],
            unpriced: "refuse",
          },
        },
        token: env.APP_KEY,
      },
    ]);
    expect(firstChannel(settings)).toMatchObject({
      name: "main",
      dialect: "openai",
      address: { baseUrl: "https://api.openai.com/v1", host: "api.openai.com:443", chatPath: "/chat/completions" },
      credentials: ["main#1"],
      pooled: false,
      maxTokensCeiling: 16_384,
      quota: "acme-org",
      timeouts: {
        connectMs: 5000,
        firstByteMs: 300_000,
        firstContentMs: 60_000,
        idleMs: 120_000,
        progressMs: 300_000,
        totalMs: 1_800_000,
      },
      capabilities: { prefill: true, contextTokens: 128_000 },
      models: {
        kind: "map",
        names: new Map([
          ["fast", "gpt-5-mini"],
          ["whisper-1", "whisper-1"],
        ]),
      },
    });
    expect(settings.secrets).toEqual(new Map([["main#1", env.OPENAI_API_KEY]]));
  });

  test("gives no warning", async () => {
    expect(await warningsOf(contract)).toEqual([]);
  });
});

describe("defaults", () => {
  test("a file without channels is a complete configuration, with a warning that all requests are rejected", async () => {
    expect(await settingsOf("log: {}")).toMatchObject({
      listen: { host: "127.0.0.1", port: 4400 },
      admin: { host: "127.0.0.1", port: 4401 },
      dataDir: "./data",
      channels: [],
      groups: [],
      keys: [],
      routing: {
        attemptsMax: 3,
        hedgeAfterMs: "auto",
        rescue: "auto",
        streamDeadlineMs: 120_000,
        wholeDeadlineMs: 600_000,
        waitMs: 0,
      },
      service: {
        bodyBytesMax: 64 * 1024 * 1024,
        keepAliveMs: 15_000,
        earlyHeadersMs: 15_000,
        writeStallMs: 60_000,
        bodyReadMs: 120_000,
        inFlightMax: 9872,
        exposeChannels: true,
        wrongKeysMax: 30,
        connectionsPerAddressMax: null,
        trustedProxies: null,
        corsOrigins: null,
        openAudioLists: false,
        keepItemsMs: 3_600_000,
        lingerMs: 5000,
        drainMs: 120_000,
      },
      logLevel: "info",
    });
    expect((await warningsOf("log: {}")).map(({ path }) => path)).toEqual(["channels"]);
  });

  test.each(["", "\n", "# only a comment\n", "---\n", "{}", "  \r\n"])("an empty file is rejected: %j", async (text) => {
    expect(await problemsOf(text)).toMatchObject([{ line: null, path: "", reason: "the file is empty" }]);
  });

  test("the number of calls in flight follows the limit of open files, within bounds", async () => {
    const inFlight = async (nofile: number): Promise<number> => (await settingsOf("log: {}", { nofile })).service.inFlightMax;
    expect(await Promise.all([1024, 4096, 1e6, 0, Infinity].map(inFlight))).toEqual([384, 1920, 10_000, 16, 10_000]);
    expect((await settingsOf("server: { in_flight: 7 }", { nofile: 1e6 })).service.inFlightMax).toBe(7);
  });

  test("a channel without keys has one credential and no secret for it", async () => {
    const settings = await settingsOf(channelWith("tier: 2"));
    expect(firstChannel(settings).credentials).toEqual(["main#1"]);
    expect(settings.secrets.size).toBe(0);
  });

  test("a pooled channel has a ceiling unless that is turned off, and no other channel has one", async () => {
    const ceiling = async (line: string): Promise<number | null> => firstChannel(await settingsOf(channelWith(line))).maxTokensCeiling;
    expect(await ceiling("api_keys: [a, b]")).toBe(16_384);
    expect(await ceiling("api_keys: [a, b]\n    max_tokens_ceiling: off")).toBeNull();
    expect(await ceiling("api_keys: [a, b]\n    max_tokens_ceiling: 99")).toBe(99);
    expect(await ceiling("api_keys: [a, b]\n    pooled: false")).toBeNull();
    expect(await ceiling("pooled: true")).toBe(16_384);
    expect(await ceiling("api_key: a")).toBeNull();
  });
});

describe("variables", () => {
  test("are replaced, with defaults for unset and empty ones, and $${ stays literal", async () => {
    const dataDir = async (value: string): Promise<string> => (await settingsOf(`data_dir: ${value}`)).dataDir;
    expect(await dataDir("${APP_KEY}")).toBe(env.APP_KEY);
    expect(await dataDir("/a/${APP_KEY}/${NOPE:-b}/${EMPTY:-c}/${NOPE:-}x")).toBe(`/a/${env.APP_KEY}/b/c/x`);
    expect(await dataDir("$${APP_KEY} $ $$")).toBe("${APP_KEY} $ $$");
  });

  test("in the value of a variable are not replaced", async () => {
    expect((await settingsOf("data_dir: ${A}", { env: { A: "${B} ${", B: "no" } })).dataDir).toBe("${B} ${");
  });

  test("may contain numbers and booleans", async () => {
    const settings = await settingsOf("routing: { attempts: '${N}' }\nchannels:\n  - {name: a, base_url: 'http://h', pooled: '${P}'}", {
      env: { N: "2", P: "true" },
    });
    expect([settings.routing.attemptsMax, firstChannel(settings).pooled]).toEqual([2, true]);
  });

  test("are not looked up on the prototype of the environment", async () => {
    expect(await problemsOf("data_dir: ${constructor}")).toMatchObject([{ line: 1, reason: expect.stringContaining("is not set") }]);
  });
});

/** Every class of mistake: the file, then the line, the place, the reason and the fix it must name. */
const mistakes: readonly (readonly [string, string, number | null, string, RegExp, RegExp])[] = [
  ["an unknown setting", "listne: 127.0.0.1:1", 1, "listne", /unknown setting/, /did you mean listen\?/],
  ["an unknown setting with dashes", channelWith("base-url: x"), 5, "channels[0].base-url", /unknown setting/, /base_url/],
  ["a setting like no other", "\n\nfrobnicate: 1", 3, "frobnicate", /unknown setting/, /settings here are listen, admin/],
  ["an unknown setting in a group", "routing:\n  attemps: 2", 2, "routing.attemps", /unknown setting/, /attempts/],
  ["an API that there is none of", channelWith("api: response"), 5, "channels[0].api", /not a known name/, /did you mean responses\?/],
  ["an API of another dialect", channelWith("dialect: deepgram\n    api: chat"), 6, "channels[0].api", /one API only/, /remove/],
  ["a missing variable", channelWith("api_key: ${NOT_SET}"), 5, "channels[0].api_key", /NOT_SET is not set/, /set NOT_SET/],
  ["an unclosed variable", "data_dir: ${A", 1, "data_dir", /no closing brace/, /\$\$\{/],
  ["a variable without a name", "data_dir: ${}", 1, "data_dir", /not the name of a variable/, /letters/],
  ["a bare variable in brackets", channelWith("api_keys: [${A}, ${B}]"), 5, "", /needs quotes/, /\["\$\{NAME\}"\]/],
  ["an empty variable as a key", channelWith("api_key: ${EMPTY}"), 5, "channels[0].api_key", /empty/, /variable is empty/],
  ["a key with a space", channelWith("api_key: ${SPACED}"), 5, "channels[0].api_key", /cannot be sent in a header/, /whole and alone/],
  ["a duration without a unit", channelWith("timeouts: { idle: 5 }"), 5, "channels[0].timeouts.idle", /not a duration/, /5s/],
  ["a duration in words", "server: { drain: 5 sec }", 1, "server.drain", /not a duration/, /30m/],
  ["a duration out of range", "server: { drain: 9999h }", 1, "server.drain", /out of range/, /to 1d/],
  ["a size without a unit", "server: { body_limit: 64 }", 1, "server.body_limit", /not a size/, /64MiB/],
  ["a size out of range", "server: { body_limit: 1B }", 1, "server.body_limit", /out of range/, /1024B/],
  ["a listener without a port", "listen: 127.0.0.1", 1, "listen", /host and a port/, /HOST:PORT/],
  ["a port that cannot be", "listen: 127.0.0.1:99999", 1, "listen", /no port 99999/, /0 to 65535/],
  ["an admin port that cannot be", "admin: '[::1]:123456'", 1, "admin", /no port 123456/, /0 to 65535/],
  ["a port without a host", "listen: 8080", 1, "listen", /8080 is a port without a host/, /127\.0\.0\.1:8080/],
  ["an upstream's port that cannot be", channelWith("proxy: http://h:70000"), 5, "channels[0].proxy", /no port 70000/, /1 to 65535/],
  [
    "an address without its scheme",
    channelWith("proxy: api.example.com/v1"),
    5,
    "channels[0].proxy",
    /"api.example.com\/v1"/,
    /https:\/\/api/,
  ],
  [
    "a variable without braces",
    channelWith("api_key: $OPENAI_API_KEY"),
    5,
    "channels[0].api_key",
    /OPENAI_API_KEY.*without braces/,
    /\$\{OPENAI_API_KEY\}/,
  ],
  ["one that is not set", channelWith("api_key: $NOT_SET"), 5, "channels[0].api_key", /NOT_SET.*without braces/, /\$\{NOT_SET\}/],
  [
    "one behind a scheme",
    channelWith("api_key: Bearer $TOKEN"),
    5,
    "channels[0].api_key",
    /TOKEN.*without braces/,
    /\$\{TOKEN\}, without Bearer/,
  ],
  ["one in a client's key", "keys:\n  - name: a\n    key: $APP_KEY", 3, "keys[0].key", /APP_KEY.*without braces/, /\$\{APP_KEY\}/],
  ["one in a pool", channelWith("api_keys: [$APP_KEY]"), 5, "channels[0].api_keys[0]", /APP_KEY.*without braces/, /\$\{APP_KEY\}/],
  ["one inside an address", "store: postgres://u:$APP_KEY@h/db", 1, "store", /APP_KEY.*without braces/, /\$\{APP_KEY\}/],
  ["a scheme before a key", channelWith("api_key: Bearer abc"), 5, "channels[0].api_key", /word Bearer/, /alone/],
  ["an admin listener in words", "admin: yes", 1, "admin", /host and a port/, /or off/],
  ["a number in words", channelWith("tier: first"), 5, "channels[0].tier", /not a whole number/, /0 to 1000/],
  ["a number out of range", "routing: { attempts: 0 }", 1, "routing.attempts", /out of range/, /1 to 10/],
  ["a weight of nothing", channelWith("weight: 0"), 5, "channels[0].weight", /out of range/, /above 0/],
  ["a choice that does not exist", "routing: { rescue: retry }", 1, "routing.rescue", /not a known name/, /auto, continue, error/],
  ["a provider that does not exist", channelWith("provider: opnai"), 5, "channels[0].provider", /not a known name/, /openai/],
  ["a setting without a value", channelWith("api_key:"), 5, "channels[0].api_key", /no value/, /remove the line/],
  ["a group without a value", "routing:", 1, "routing", /group/, /remove the line/],
  ["a list where a group belongs", "routing: []", 1, "routing", /group/, /indented/],
  ["a group where a list belongs", "channels: { name: a }", 1, "channels", /list/, /dash/],
  ["a channel that is text", "channels:\n  - a", 2, "channels[0]", /group/, /indented/],
  ["a channel without a name", "channels:\n  - provider: ollama", 2, "channels[0].name", /missing/, /name/],
  ["a name with a slash", "channels:\n  - name: a/b", 2, "channels[0].name", /cannot be a name/, /letters/],
  [
    "two channels of one name",
    "channels:\n  - {name: a, base_url: http://h}\n  - {name: a, base_url: http://h}",
    3,
    "channels[1].name",
    /another channel/,
    /its own/,
  ],
  ["a channel that leads nowhere", "channels:\n  - name: a", 2, "channels[0]", /neither a provider nor a base_url/, /one of the two/],
  [
    "a provider without its key",
    "channels:\n  - name: a\n    provider: openai",
    2,
    "channels[0].api_key",
    /requires a key/,
    /api_key: \$\{OPENAI_API_KEY\}/,
  ],
  ["a key given twice", channelWith("api_key: a\n    api_keys: [b]"), 6, "channels[0].api_keys", /api_key is also set/, /one of the two/],
  ["the same key twice in a pool", channelWith("api_keys: [a, a]"), 5, "channels[0].api_keys[1]", /twice/, /remove/],
  ["a missing region", "channels:\n  - {name: a, provider: bedrock, api_key: k}", 2, "channels[0].region", /missing/, /region:/],
  [
    "a region that is a host",
    "channels:\n  - name: a\n    provider: bedrock\n    api_key: k\n    region: evil.com/x",
    5,
    "channels[0].region",
    /host name/,
    /us-east-1/,
  ],
  ["a region nobody asked for", channelWith("region: us-east-1"), 5, "channels[0].region", /not part of this channel's address/, /remove/],
  [
    "a version nobody asked for",
    channelWith("api_version: 2024-10-21"),
    5,
    "channels[0].api_version",
    /does not use an API version/,
    /remove/,
  ],
  [
    "models of an upstream without a list",
    "channels:\n  - {name: a, provider: azure-openai, resource: r, api_key: k}",
    2,
    "channels[0].models",
    /no list/,
    /name its models/,
  ],
  ["no models", channelWith("tier: 1").replace("[m]", "[]"), 4, "channels[0].models", /empty/, /fill it/],
  ["no models in a map", channelWith("tier: 1").replace("[m]", "{}"), 4, "channels[0].models", /not name any model/, /discovered/],
  ["a model that is a number", channelWith("tier: 1").replace("[m]", "{ a: 4 }"), 4, "channels[0].models", /not text/, /quotes/],
  ["a pattern of models", channelWith("tier: 1").replace("[m]", "['gpt-*']"), 4, "channels[0].models[0]", /star/, /"\*"/],
  ["a bare star", channelWith("tier: 1").replace("[m]", "*"), 4, "", /alias/, /"\*" in quotes/],
  [
    "the address of one operation",
    channelWith("tier: 1").replace("/v1", "/v1/chat/completions"),
    3,
    "channels[0].base_url",
    /one operation/,
    /leave out/,
  ],
  ["a password in an address", channelWith("tier: 1").replace("up.", "u:p@up."), 3, "channels[0].base_url", /password/, /api_key/],
  ["a proxy with a password", channelWith("proxy: http://u:p@proxy"), 5, "channels[0].proxy", /password/, /remove it/],
  [
    "a proxy at a metadata address",
    channelWith("proxy: http://169.254.169.254"),
    5,
    "channels[0].proxy",
    /metadata/,
    /address of the server itself/,
  ],
  ["a key among the headers", channelWith("headers: { Authorization: x }"), 5, "channels[0].headers", /key does not belong/, /api_key/],
  [
    "a header of the connection",
    channelWith("headers: { Host: x }"),
    5,
    "channels[0].headers",
    /gateway sets this header itself/,
    /remove/,
  ],
  [
    "a header with a line break",
    channelWith('headers: { x-a: "a\\r\\nb: c" }'),
    5,
    "channels[0].headers",
    /control character/,
    /line breaks/,
  ],
  [
    "a forwarded key",
    channelWith("forward_headers: [authorization]"),
    5,
    "channels[0].forward_headers[0]",
    /key does not belong/,
    /api_key/,
  ],
  [
    "an unknown operation",
    channelWith("capabilities: { operations: [chta] }"),
    5,
    "channels[0].capabilities.operations[0]",
    /not a known name/,
    /chat/,
  ],
  [
    "a key file that is not there",
    channelWith("api_key_file: /nowhere/at/all"),
    5,
    "channels[0].api_key_file",
    /cannot be read/,
    /permissions/,
  ],
  ["a price beyond all measure", "prices:\n  - model: m\n    input: 10000.01", 3, "prices[0].input", /out of range/, /of at most 10000/],
  ["a short key", "keys:\n  - name: a\n    key: short", 3, "keys[0].key", /at least 16 characters/, /begin with sk-gw_$/],
  ["a damaged key", "keys:\n  - name: a\n    key: sk-gw_0123456789ab_nonsense", 3, "keys[0].key", /checksum/, /copy the key again/],
  ["a key with a comma", "keys:\n  - name: a\n    key: aaaaaaaa,bbbbbbbbbb", 3, "keys[0].key", /comma/, /another/],
  ["a key without a name", "keys:\n  - key: aaaaaaaabbbbbbbb", 2, "keys[0].name", /missing/, /name/],
  [
    "two keys of one name",
    "keys:\n  - {name: a, key: aaaaaaaabbbbbbbb}\n  - {name: a, key: aaaaaaaabbbbbbbc}",
    3,
    "keys[1].name",
    /another key/,
    /its own/,
  ],
  [
    "one key under two names",
    "keys:\n  - {name: a, key: aaaaaaaabbbbbbbb}\n  - {name: b, key: aaaaaaaabbbbbbbb}",
    3,
    "keys[1].key",
    /same key/,
    /its own/,
  ],
  ["a date in words", "keys:\n  - name: a\n    key: aaaaaaaabbbbbbbb\n    expires: soon", 4, "keys[0].expires", /not a date/, /2027-01-01/],
  [
    "a day that does not exist",
    "keys:\n  - name: a\n    key: aaaaaaaabbbbbbbb\n    expires: 2027-02-31",
    4,
    "keys[0].expires",
    /no such day/,
    /2027/,
  ],
  [
    "an unknown limit",
    "keys:\n  - name: a\n    key: aaaaaaaabbbbbbbb\n    limits: { rps: 1 }",
    4,
    "keys[0].limits.rps",
    /unknown setting/,
    /rpm/,
  ],
  ["a short webhook secret", "webhooks:\n  - url: https://h/hook\n    secret: abc", 3, "webhooks[0].secret", /fewer than 16/, /openssl/],
  [
    "a webhook secret that is no base64, of which no key would be left",
    "webhooks:\n  - url: https://h/hook\n    secret: whsec_----------------",
    3,
    "webhooks[0].secret",
    /16 bytes in base64/,
    /whsec_\$\(openssl rand -base64 24\)/,
  ],
  [
    "a webhook secret of a few bytes",
    "webhooks:\n  - url: https://h/hook\n    secret: whsec_c2hvcnQgb25l",
    3,
    "webhooks[0].secret",
    /16 bytes in base64/,
    /openssl/,
  ],
  ["a webhook without a secret", "webhooks:\n  - url: https://h/hook", 2, "webhooks[0].secret", /missing/, /^add it$/],
  [
    "a webhook at an address with a password",
    "webhooks:\n  - url: https://u:p@h/hook\n    secret: aaaaaaaabbbbbbbb",
    2,
    "webhooks[0].url",
    /user name or a password/,
    /signature/,
  ],
  ["no address of a collector", "otel:\n  sample: 1", 1, "otel.endpoint", /missing/, /as in http:\/\/127\.0\.0\.1:4318$/],
  [
    "a collector without a scheme",
    "otel:\n  endpoint: localhost:4318",
    2,
    "otel.endpoint",
    /not the address/,
    /write http:\/\/localhost:4318,/,
  ],
  [
    "an upstream without a scheme",
    channelWith("tier: 1").replace("https://up.example.com/v1", "gpu1:8000/v1"),
    3,
    "channels[0].base_url",
    /not the address/,
    /write http:\/\/gpu1:8000\/v1,/,
  ],
  ["an admin name with a scheme", "admin_names: [http://gateway]", 1, "admin_names[0]", /not the name of a host/, /name alone/],
  ["an admin name with a port", 'admin_names: ["gateway:4401"]', 1, "admin_names[0]", /not the name of a host/, /name alone/],
  ["an unknown store", "store: mysql://h", 1, "store", /not a supported backend/, /postgres/],
  ["a tab", "routing:\n\tattempts: 2", 2, "", /tab/, /spaces/],
  ["an unclosed bracket", "channels: [\nlisten: 127.0.0.1:1\n", 1, "", /bracket \[ of this line is not closed/, /add the \]/],
  ["an unclosed bracket far above", channelWith("tags: [a,\n      b\n    tier: 1\n    weight: 1"), 5, "", /\[ of this line/, /add the \]/],
  [
    "an unclosed brace",
    "channels: [\n  { name: a },\n  { name: b\n]\nlisten: h:1",
    4,
    "",
    /does not close the bracket \{ of line 3/,
    /\} first/,
  ],
  ["a bracket at the end of the file", "data_dir: a\nchannels: [{ name: a }", 2, "", /bracket \[ of this line is not closed/, /add the \]/],
  ["a bracket too many", channelWith("tags: [a]]\n    tier: 1"), 5, "", /\] too many/, /remove/],
  ["an unclosed quote", 'data_dir: "abc', 1, "", /closing quote/, /quote/],
  ["an unclosed quote far above", 'data_dir: "abc\nlisten: 127.0.0.1:1\nlog: { level: "info" }', 1, "", /closing quote/, /quote/],
  ["a line indented too far", channelWith("tier: 1\n      weight: 2"), 6, "", /indentation.*6 spaces.*0, 2, 4/, /equally far/],
  ["a line not indented enough", channelWith("tier: 1\n   weight: 2"), 6, "", /indentation.*3 spaces/, /equally far/],
  ["settings left of their entry", "channels:\n- name: a\n base_url: http://h", 3, "", /indentation.*1 space /, /equally far/],
  ["a group in disorder", "server:\n    drain: 5s\n  linger: 5s", 3, "", /indentation.*2 spaces.*0, 4/, /equally far/],
  ["a colon left out", channelWith("tier 1\n    weight: 2"), 5, "", /colon is missing/, /name: value/],
  ["a space left out", "channels:\n  - name:a\n    tier: 1", 2, "", /no space after the colon/, /name: value/],
  ["a value with a colon", "data_dir: a: b", 1, "", /not YAML/, /quote values/],
  ["a setting given twice", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", 2, "listen", /set twice/, /remove one/],
  ["two documents", "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2", 2, "", /more than one document/, /---/],
  ["an alias to nothing", "data_dir: *nothing", 1, "data_dir", /anchor that does not exist/, /anchor/],
  ["a tag that makes things", "data_dir: !!js/function 'x'", 1, "data_dir", /tags/, /!/],
  ["a prototype", "__proto__: { listen: x }", 1, "", /plain text/, /name: value/],
  ["text instead of settings", "hello", 1, "", /group of settings/, /name: value/],
  ["a list instead of settings", "- a\n- b", 1, "", /group of settings/, /name: value/],
  ["an alias that holds itself", "routing: &a { rescue: *a }", 1, "", /nested too deeply/, /aliases/],
];

describe("a value that cannot be a secret is quoted:", () => {
  test.each([
    ["log: { level: verbose }", '"verbose" is not a known name'],
    ["routing: { attempts: 99 }", "99 is out of range"],
    ["routing: { attempts: many }", '"many" is not a whole number'],
    ["server: { drain: 5 sec }", '"5 sec" is not a duration'],
    ["server: { drain: 9999h }", '"9999h" is out of range'],
    ["server: { body_limit: 1 mile }", '"1 mile" is not a size'],
    ["admin_tls: maybe", '"maybe" is not true or false'],
    ["listen: nowhere", '"nowhere" is not a host and a port'],
    ["channels:\n  - name: my channel", '"my channel" cannot be a name'],
  ])("%s", async (text, reason) => {
    expect(await problemsOf(text)).toMatchObject([{ reason }]);
  });
});

describe("an error is reported with its line and its fix:", () => {
  test.each(mistakes)("%s", async (_title, text, line, path, reason, fix) => {
    const problems = await problemsOf(text);
    const found = problems.find((problem) => problem.path === path && problem.line === line && reason.test(problem.reason));
    expect(found, JSON.stringify(problems)).toBeDefined();
    expect(problems, "one problem for one mistake").toHaveLength(1);
    expect(found?.fix).toMatch(fix);
  });

  test("all errors of a file are reported at once, in the order of its lines", async () => {
    const problems = await problemsOf("routing: { attempts: 0 }\nlisten: 1\nchannels:\n  - name: ''\n    provider: x\nnope: 1\n");
    expect(problems.map(({ line }) => line)).toEqual([1, 2, 4, 5, 6]);
  });

  test("a file of another program gives a screenful of problems, not thousands", async () => {
    const foreign = Array.from({ length: 5000 }, (_, at) => `key${at}: 1`).join("\n");
    expect((await problemsOf(foreign)).length).toBeLessThanOrEqual(50);
  });

  test("a problem is rendered in at most two lines", async () => {
    const [problem] = await problemsOf("\nlisten: 1");
    if (problem === undefined) throw new Error("there is no problem");
    expect(renderProblem("sluice.yaml", problem)).toBe(
      "sluice.yaml:2: listen: 1 is a port without a host\n" + "  write 127.0.0.1:1, or 0.0.0.0:1 for other machines as well",
    );
    expect(renderProblem(null, { line: null, path: "A_KEY", reason: "this is wrong", fix: "" })).toBe("A_KEY: this is wrong");
  });
});

describe("warnings", () => {
  const warned = async (text: string): Promise<(readonly [number | null, string])[]> =>
    (await warningsOf(text)).filter(({ path }) => path !== "channels").map(({ line, path }) => [line, path]);

  test("are not given for ordinary settings", async () => {
    expect(await warned("admin: off")).toEqual([]);
    expect(await warned("store: postgres://u:p@h/d\nstate: redis://h\nallow_private: true")).toEqual([]);
  });

  test("are given for a listener that other machines can reach", async () => {
    expect(await warned("listen: 0.0.0.0:4400")).toEqual([[1, "listen"]]);
    for (const host of ["127.0.0.1", "127.0.0.2", "localhost", "[::1]"]) expect(await warned(`listen: ${host}:4400`)).toEqual([]);
  });

  test("are given for a key that is sent unencrypted over a public network, not over a private one", async () => {
    const over = (address: string): Promise<unknown> => warned(channelWith("api_key: k").replace("https://up.example.com/v1", address));
    expect(await over("http://up.example.com/v1")).toEqual([[3, "channels[0].base_url"]]);
    for (const near of ["http://127.0.0.1:1", "http://10.1.2.3/v1", "http://vllm:8000", "http://[::1]", "http://a.local"]) {
      expect(await over(near)).toEqual([]);
    }
  });

  test("are given for a timeout that is longer than the deadline, and only if it was set", async () => {
    expect(await warned(channelWith("timeouts: { first_content: 300s }"))).toEqual([[5, "channels[0].timeouts.first_content"]]);
    expect(await warned(`${channelWith("tier: 1")}routing: { deadlines: { stream: 10s, whole: 10s } }`)).toEqual([]);
  });

  test("are given for more tags than the sums of usage can hold", async () => {
    const tagged = (characters: number): Promise<readonly Problem[]> =>
      warningsOf(channelWith(`tags: [${Array.from({ length: 9 }, (_, at) => `${at}${"t".repeat(characters)}`).join(", ")}]`));
    expect(await tagged(53)).toEqual([]);
    const [found, ...others] = await tagged(54);
    expect(others).toEqual([]);
    expect([found?.line, found?.path]).toEqual([5, "channels[0].tags"]);
    expect(found?.reason).toMatch(/508 characters .* after the first 500/);
    expect(found?.fix).toMatch(/500/);
  });

  test("are given for a mode of a socket where there is none", async () => {
    expect(await warned('listen_mode: "600"')).toEqual([[1, "listen_mode"]]);
    expect(await warned('listen: unix:/run/sluice.sock\nlisten_mode: "600"')).toEqual([]);
  });

  test("are given for two listeners at one port", async () => {
    for (const pair of ["127.0.0.1:4400\nadmin: 127.0.0.1:4400", "127.0.0.1:4401", "127.0.0.1:5000\nadmin: 0.0.0.0:5000\nadmin_tls: true"])
      expect((await warned(`listen: ${pair}`)).map(([, path]) => path)).toEqual(["admin"]);
    for (const pair of ["127.0.0.1:0\nadmin: 127.0.0.1:0", "127.0.0.2:4400\nadmin: 127.0.0.1:4400", "127.0.0.1:4401\nadmin: off"])
      expect(await warned(`listen: ${pair}`)).toEqual([]);
  });

  test("are given for metrics that are set up, and that nobody can ask for", async () => {
    const token = "token: aaaaaaaabbbbbbbb";
    const collector = "otel: { endpoint: http://127.0.0.1:4318 }";
    for (const nobody of [
      `metrics: { ${token}, enabled: false }`,
      `metrics: { ${token} }\nadmin: off`,
      `metrics: { ${token} }\nadmin: off\n${collector}`,
    ])
      expect(await warned(nobody)).toEqual([[1, "metrics.token"]]);
    expect(await warned("metrics: { budgets: true }\nadmin: off")).toEqual([[1, "metrics.budgets"]]);
    for (const read of [
      `metrics: { ${token}, budgets: true }`,
      `metrics: { ${token}, data_port: true }\nadmin: off`,
      `metrics: { budgets: true, enabled: false }\nadmin: off\n${collector}`,
      "metrics: { enabled: false }",
    ])
      expect(await warned(read)).toEqual([]);
  });

  test("are given for the address of a collector that takes no OTLP over HTTP", async () => {
    for (const address of ["http://c:4318/v1/traces", "https://c/otlp/v1/metrics/", "http://c:4317"])
      expect(await warned(`otel:\n  endpoint: ${address}`)).toEqual([[2, "otel.endpoint"]]);
    for (const address of ["http://c:4318", "https://c/otlp"]) expect(await warned(`otel:\n  endpoint: ${address}`)).toEqual([]);
  });

  test("are given for a key that has expired", async () => {
    expect(await warned("keys:\n  - {name: a, key: aaaaaaaabbbbbbbb, expires: 2020-01-01}")).toEqual([[2, "keys[0].expires"]]);
  });
});

describe("channels", () => {
  const azure = async (line: string): Promise<Settings["channels"][number]["address"]> =>
    firstChannel(await settingsOf(`channels:\n  - name: a\n    provider: azure-openai\n    api_key: k\n    models: [d]\n    ${line}`))
      .address;

  test("of a provider with a resource have either of its two addresses", async () => {
    expect(await azure("resource: res")).toEqual({
      baseUrl: "https://res.openai.azure.com/openai/v1",
      host: "res.openai.azure.com:443",
      ...defaultPaths,
      modelsPath: null,
      query: "",
      authHeader: "api-key",
      authPrefix: "",
    });
    expect(await azure("resource: res\n    api_version: 2024-10-21")).toMatchObject({
      baseUrl: "https://res.openai.azure.com",
      chatPath: "/openai/deployments/{model}/chat/completions",
      query: "?api-version=2024-10-21",
    });
    expect(await azure("base_url: https://res.services.ai.azure.com/openai/v1")).toMatchObject({
      baseUrl: "https://res.services.ai.azure.com/openai/v1",
      authHeader: "api-key",
    });
  });

  test("with only an address speak the OpenAI API and support everything", async () => {
    expect(firstChannel(await settingsOf(channelWith("auth_header: X-Key")))).toMatchObject({
      dialect: "openai",
      address: {
        baseUrl: "https://up.example.com/v1",
        host: "up.example.com:443",
        modelsPath: "/models",
        authHeader: "x-key",
      },
      capabilities: { operations: [...operations], prefill: false, contextTokens: null },
      quirks: { streamOptions: true },
    });
  });

  test("lose a trailing slash and keep their port", async () => {
    const channel = firstChannel(await settingsOf(channelWith("tier: 1").replace("https://up.example.com/v1", "http://h:81/v1//")));
    expect([channel.address.baseUrl, channel.address.host]).toEqual(["http://h:81/v1", "h:81"]);
  });

  test("have headers in lower case, and forward those of the provider and their own", async () => {
    const channel = firstChannel(
      await settingsOf(
        channelWith("headers: { X-Team: search }\n    provider: openai\n    api_key: k\n    forward_headers: [X-Trace, openai-beta]"),
      ),
    );
    expect(channel.headers).toEqual({ "x-team": "search" });
    expect(channel.forwardHeaders).toEqual(["openai-beta", "x-trace"]);
  });

  test("have models by map, by list, by star or not at all", async () => {
    const models = async (line: string): Promise<unknown> =>
      firstChannel(await settingsOf(`channels:\n  - name: a\n    base_url: http://h\n    ${line}`)).models;
    expect(await models("models: { a: b }")).toEqual({ kind: "map", names: new Map([["a", "b"]]) });
    expect(await models("models: [a, 'b/c:d']")).toEqual({
      kind: "map",
      names: new Map([
        ["a", "a"],
        ["b/c:d", "b/c:d"],
      ]),
    });
    expect(await models("models: '*'")).toEqual({ kind: "any" });
    expect(await models("tier: 1")).toMatchObject({ kind: "discovered" });
  });

  test("have the APIs of their provider for chats, or those that they name, also model by model", async () => {
    const apis = async (lines: string): Promise<unknown> =>
      firstChannel(await settingsOf(`channels:\n  - name: a\n    models: [m]\n    api_key: k\n    ${lines}`)).quirks.chatApis;
    const both = [{ models: "*", api: "both" }];
    expect(await apis("base_url: http://h")).toEqual([]);
    expect(await apis("provider: groq")).toEqual([]);
    expect(await apis("provider: openai")).toEqual(both);
    expect(await apis("provider: azure-openai\n    resource: r")).toEqual(both);
    expect(await apis("provider: azure-openai\n    resource: r\n    api_version: 2024-10-21")).toEqual([]);
    expect(await apis("provider: azure-openai\n    resource: r\n    api_version: 2025-04-01-preview\n    api: both")).toEqual(both);
    expect(await apis("provider: openai\n    api: chat")).toEqual([{ models: "*", api: "chat" }]);
    expect(await apis("base_url: http://h\n    api: { 'gpt-oss*': responses, '*': both }")).toEqual([
      { models: "gpt-oss*", api: "responses" },
      ...both,
    ]);
    expect(await apis("base_url: http://h\n    dialect: openai-responses")).toEqual([]);
  });

  test("have numbered keys, in the given order", async () => {
    const settings = await settingsOf(channelWith("api_keys: [first, second]"));
    expect(firstChannel(settings).credentials).toEqual(["main#1", "main#2"]);
    expect([...settings.secrets]).toEqual([
      ["main#1", "first"],
      ["main#2", "second"],
    ]);
  });

  test("may have their key in a file beside the configuration", async () => {
    const directory = mkdtempSync(join(tmpdir(), "sluice-"));
    writeFileSync(join(directory, "key"), "sk-from-a-file\n");
    const path = join(directory, "sluice.yaml");
    expect([...(await settingsOf(channelWith("api_key_file: key"), { path })).secrets]).toEqual([["main#1", "sk-from-a-file"]]);
    writeFileSync(join(directory, "two"), "sk one\nsk two\n");
    expect(await problemsOf(channelWith("api_key_file: two"), { path })).toMatchObject([
      { line: 5, reason: expect.stringMatching(/does not contain a key/) },
    ]);
    chmodSync(join(directory, "two"), 0o600);
    expect(await problemsOf(channelWith("api_key_file: ."), { path })).toMatchObject([{ reason: "this file cannot be read" }]);
  });
});

test("a webhook is told at its address as it is written, with a slash at its end", async () => {
  const { webhooks } = await settingsOf('webhooks: [{ url: "https://hooks.example.com/a/b/", secret: 0123456789abcdef }]');
  expect(webhooks.map(({ url }) => url)).toEqual(["https://hooks.example.com/a/b/"]);
});

test("a price of the file can have every rate that one of the store can have", async () => {
  const lines = priceFieldNames.map((field, index) => `    ${field}: ${index + 1}\n`).join("");
  const { prices } = await settingsOf(`prices:\n  - model: m\n${lines}`);
  expect(prices.map(({ rates }) => priceFields(rates))).toEqual([
    Object.fromEntries(priceFieldNames.map((field, index) => [field, index + 1])),
  ]);
});

describe("the version", () => {
  const version = async (text: string, value: string): Promise<string> => (await settingsOf(text, { env: { ...env, K: value } })).version;

  test("is the same for the same settings, and changes with each of them, including secrets", async () => {
    const text = channelWith("api_key: ${K}");
    expect(await version(text, "a")).toBe(await version(text, "a"));
    expect(await version(text, "a")).toBe(await version(`# a comment\n${text}`, "a"));
    expect(await version(text, "a")).not.toBe(await version(text, "b"));
    expect(await version(text, "a")).not.toBe(await version(channelWith("api_key: ${K}\n    tier: 2"), "a"));
    expect(await version(text, "a")).toMatch(/^[0-9a-f]{12}$/);
  });
});

describe("secrets", () => {
  const canary = "canary-7f3a-SECRET";

  test("are never in the channels of the settings", async () => {
    const settings = await settingsOf(channelWith(`api_keys: ["\${A}", "\${A}2"]`), { env: { A: canary } });
    expect(JSON.stringify(settings.channels)).not.toContain(canary);
    expect([...settings.secrets.values()]).toEqual([canary, `${canary}2`]);
  });

  const places = mistakes.map(([, text]) => text).concat(contract);

  test(
    "are never in a problem or a warning, wherever in the file they are",
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...places),
          fc.nat(),
          fc.constantFrom("${CANARY}", canary, `"${canary}`, `[${canary}`, `{ ${canary}: 1 }`, `*${canary}`, `!${canary} x`, `@${canary}`),
          async (text, at, value) => {
            const lines = text.split("\n");
            const line = at % lines.length;
            lines[line] = (lines[line] ?? "").replace(/: .*$/, `: ${value}`);
            const loaded = await load(lines.join("\n"), { env: { ...env, CANARY: canary } });
            const said = loaded.ok ? loaded.warnings : loaded.problems;
            expect(JSON.stringify(said)).not.toContain(canary);
          },
        ),
        { numRuns: numRuns(250) },
      );
    },
    propertyMs,
  );

  test("are distinguished from values that a message may quote", async () => {
    const shown = [
      "verbose",
      "5 sec",
      "9999h",
      "127.0.0.1",
      "api.example.com/v1",
      "http:/h",
      "yes",
      "first",
      "2027-02-31",
      "1 MiB",
      99_999,
      true,
    ];
    for (const value of shown) expect(shownValue(value)).toBe(JSON.stringify(value));
    const hidden = [
      "sk-1234",
      "gsk_abc",
      "Bearer abc",
      "hunter2abc",
      "AKIA2E4X",
      "abcdefghijklmnop",
      "u:p@host",
      "my-password",
      "a=b",
      "",
      null,
      {},
    ];
    for (const value of hidden) expect(shownValue(value)).toBeNull();
    expect(await problemsOf(`log: { level: ${env.OPENAI_API_KEY} }`)).toMatchObject([{ reason: "this is not a known name" }]);
    expect(JSON.stringify(await problemsOf(channelWith("api_key: 40404040")))).not.toContain("40404040");
    expect(JSON.stringify(await problemsOf(channelWith("api_keys: lonely")))).not.toContain("lonely");
  });

  test("are not shown as the name of an unknown setting", async () => {
    expect(JSON.stringify(await problemsOf("sk-live-0a1b2c3d: 1\nchannels:\n  - sk-live-0a1b2c3d: x"))).not.toContain("0a1b2c3d");
  });
});

describe("loading never throws, whatever the text contains:", () => {
  const yamlish = fc.array(
    fc.constantFrom(
      "channels",
      "keys",
      "name",
      ": ",
      ":",
      "- ",
      "\n",
      "\n  ",
      "\t",
      "[",
      "]",
      "{",
      "}",
      ",",
      "&a ",
      "*a",
      "!!",
      "|",
      ">",
      "'",
      '"',
      "#",
      "%",
      "---",
      "${",
      "}",
      "$",
      "~",
      "?",
      "<<",
      "0x1",
      "\u0000",
      "é",
      "\ud800",
      "\u2028",
    ),
    { maxLength: 60 },
  );

  test(
    "anything",
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.oneof(
            anyText({ maxLength: 200 }),
            fc.json(),
            yamlish.map((parts) => parts.join("")),
          ),
          async (text) => {
            const loaded = await load(text);
            if (loaded.ok) return;
            expect(loaded.problems.length).toBeGreaterThan(0);
            for (const problem of loaded.problems) expect(problem.reason).not.toBe("");
          },
        ),
        { numRuns: numRuns(250) },
      );
    },
    propertyMs,
  );

  test(
    "bytes that are no text",
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 500 }), async (bytes) => {
          await load(new TextDecoder("latin1").decode(bytes));
          await load(new TextDecoder().decode(bytes));
        }),
      );
    },
    propertyMs,
  );

  test(
    "any value for any setting",
    async () => {
      const value = fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(null, -1, Infinity, "", "*", "off", [[]], { a: {} }));
      const setting = fc.constantFrom(
        "listen",
        "admin",
        "store",
        "state",
        "expose",
        "keys",
        "channels",
        "routing",
        "server",
        "log",
        "data_dir",
      );
      const channel = fc.constantFrom(
        "name",
        "provider",
        "base_url",
        "api_key",
        "api_keys",
        "models",
        "timeouts",
        "headers",
        "capabilities",
        "voices",
        "tier",
        "proxy",
      );
      await fc.assert(fc.asyncProperty(fc.dictionary(setting, value), async (file) => void (await load(JSON.stringify(file)))));
      await fc.assert(
        fc.asyncProperty(fc.dictionary(channel, value), async (entry) => void (await load(JSON.stringify({ channels: [entry] })))),
        { numRuns: numRuns(125) },
      );
    },
    propertyMs,
  );

  test(
    "depth without end, aliases without end, length without end",
    async () => {
      const doubling = Array.from({ length: 30 }, (_, at) => `a${at}: &a${at} [${at === 0 ? "x" : `*a${at - 1}, *a${at - 1}`}]`);
      for (const text of ["[".repeat(20_000), "- ".repeat(20_000), "? ".repeat(20_000), doubling.join("\n"), "x".repeat(1024 * 1024)]) {
        expect((await load(text)).ok).toBe(false);
      }
    },
    propertyMs,
  );

  test("reading a file does not change any prototype", async () => {
    await load('{"__proto__": {"polluted": 1}, "channels": [{"__proto__": {"polluted": 1}, "models": {"__proto__": "x"}}]}');
    await load("constructor: { prototype: { polluted: 1 } }\nchannels:\n  - models: { constructor: x, toString: y }");
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});
