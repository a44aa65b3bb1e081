import { describe, expect, test } from "bun:test";
import { ConfigurationRecord, partsOf } from "../../../src/app/configuration/configuration-record.ts";
import { loadConfig, type Settings } from "../../../src/config/load.ts";
import { StorageError, type ConfigurationParts } from "../../../src/gateway/storage.ts";

async function settingsOf(file: Readonly<Record<string, unknown>>, env: Readonly<Record<string, string>> = {}): Promise<Settings> {
  const loaded = await loadConfig({ path: null, text: JSON.stringify(file), env, nofile: 1_024, checksCertificate: false });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.settings;
}

const digest = (text: string): string => new Bun.CryptoHasher("sha256", "pepper").update(text).digest("hex");
const channel = { name: "main", base_url: "https://api.example/v1", models: ["m"] };

describe("the parts of a configuration", () => {
  test("have what is written, and no secret of it, nor the end of one", async () => {
    const parts = await partsOf(
      await settingsOf(
        {
          store: "postgres://sluice:canary-password@db.example/sluice",
          channels: [
            { ...channel, api_key: "canary-0123456789abcdef", headers: { "x-team": "canary-header" }, tier: 2 },
            { ...channel, name: "other", api_key: "${KEY}" },
          ],
          groups: [{ name: "web", kind: "team", limits: { rpm: 5 } }],
          keys: [{ name: "laptop", key: "canary-key-0123456789abcdef", group: "web" }],
          webhooks: [{ url: "https://hooks.example/services/canary-path", secret: "canary-of-a-webhook-0123456789" }],
          admin: "127.0.0.1:4401",
          admin_tls: true,
          sign_in: {
            oidc: {
              issuer: "https://login.example",
              client_id: "sluice",
              client_secret: "canary-client-secret",
              public_url: "https://sluice.example",
              admin_groups: ["platform"],
            },
          },
        },
        { KEY: "canary-of-a-variable" },
      ),
      digest,
    );
    expect(JSON.stringify([...parts])).not.toMatch(/canary|cdef|6789/);
    const valuesOf = (name: string): unknown => parts.get(name)?.values;
    const mark = expect.stringMatching(/^[0-9a-f]{16}$/) as string;
    expect(valuesOf("channels.main")).toEqual({
      name: ["main"],
      base_url: ["https://api.example/v1"],
      models: [["m"]],
      api_key: ["****", mark],
      headers: ["****", mark],
      tier: [2],
    });
    expect(valuesOf("groups.web")).toEqual({ name: ["web"], kind: ["team"], "limits.rpm": [5] });
    expect(valuesOf("webhooks")).toEqual({ "0.url": ["https://hooks.example/****", mark], "0.secret": ["****", mark] });
    expect(valuesOf("store")).toEqual({ "": ["postgres://****@db.example/sluice", mark] });
    expect(valuesOf("sign_in")).toMatchObject({ "oidc.client_id": ["sluice"], "oidc.client_secret": ["****", mark] });
  });

  test("are the same for replicas whose variables differ, except for the digest of their values", async () => {
    const file = { channels: [{ ...channel, name: "${REGION}", api_key: "${KEY}", base_url: "https://${REGION}.example/v1" }] };
    const of = async (env: Readonly<Record<string, string>>): Promise<ConfigurationParts> => partsOf(await settingsOf(file, env), digest);
    const [one, other] = [await of({ REGION: "eu", KEY: "a" }), await of({ REGION: "us", KEY: "b" })];
    const name = "channels.${REGION}";
    expect([...one.keys()]).toEqual([name]);
    expect(other.get(name)).toEqual({ ...one.get(name)!, resolved: expect.stringMatching(/^[0-9a-f]{16}$/) as string });
    expect(other.get(name)?.resolved).not.toBe(one.get(name)!.resolved);
    expect(one.get(name)?.values).toMatchObject({ base_url: ["https://${REGION}.example/v1"] });
  });
});

test("a change that cannot be recorded is said to be missing once, and tried again until it is there, with longer and longer pauses", async () => {
  let settings = await settingsOf({ channels: [channel] });
  let down = true;
  const recorded: ConfigurationParts[] = [];
  const logged: string[] = [];
  const pauses: number[] = [];
  let retry: (() => void) | null = null;
  let settled = Promise.withResolvers<void>();
  const record = new ConfigurationRecord({
    audit: {
      configured: async (parts) => {
        if (down) throw new StorageError("unavailable", "the store is away");
        recorded.push(parts);
      },
    },
    settings: () => settings,
    digest,
    by: { kind: "gateway", name: "configuration file" },
    after: (ms, then) => {
      pauses.push(ms);
      retry = then;
      settled.resolve();
      return () => (retry = null);
    },
    log: {
      info: (event) => {
        logged.push(event);
        settled.resolve();
      },
      warn: (event, fields) => void logged.push(`${event}: ${String(fields?.["detail"])}`),
    },
    onBug: (error) => void logged.push(String(error)),
  });
  const next = async (act: () => void): Promise<void> => {
    settled = Promise.withResolvers();
    act();
    await settled.promise;
  };
  await next(() => record.record());
  for (let round = 0; round < 9; round += 1) await next(() => retry?.());
  expect(pauses).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]);
  expect(logged).toEqual(["audit_trouble: a change of the configuration file is not in the audit log yet: the store is away"]);
  down = false;
  settings = await settingsOf({ channels: [{ ...channel, tier: 2 }] });
  await next(() => retry?.());
  expect(recorded.map((parts) => parts.get("channels.main")?.values)).toEqual([expect.objectContaining({ tier: [2] })]);
  expect(logged.slice(1)).toEqual(["audit_back"]);
});
