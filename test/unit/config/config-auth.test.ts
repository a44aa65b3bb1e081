import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { externalAccountOf, secretPartsOf, serviceAccountOf } from "../../../src/channels/channel-auth.ts";
import { loadConfig, type Loaded } from "../../../src/config/load.ts";
import { readRuntimeChannel } from "../../../src/config/runtime-channel.ts";

const pem = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" });
const account = { type: "service_account", client_email: "robot@project.example", private_key: pem, private_key_id: "k1" };
const directory = mkdtempSync(join(tmpdir(), "sluice-auth-"));
writeFileSync(join(directory, "account.json"), JSON.stringify(account, null, 2));
writeFileSync(join(directory, "other.json"), '{"type":"authorized_user"}');

function load(...lines: readonly string[]): Promise<Loaded> {
  const channel = ["name: main", "models: [m]", ...lines].map((line, at) => `${at === 0 ? "  - " : "    "}${line}`);
  const text = ["channels:", ...channel, ""].join("\n");
  return loadConfig({ path: join(directory, "sluice.yaml"), text, env: {}, nofile: 1000, nowMs: 0 });
}

async function read(...lines: readonly string[]) {
  const loaded = await load(...lines);
  if (!loaded.ok) throw new Error(loaded.problems.map(({ path, reason }) => `${path}: ${reason}`).join("\n"));
  const [channel] = loaded.settings.channels;
  return { auth: channel?.auth, secrets: [...loaded.settings.secrets.values()] };
}

async function problemsOf(...lines: readonly string[]): Promise<readonly string[]> {
  const loaded = await load(...lines);
  return loaded.ok ? [] : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`);
}

const external = {
  type: "external_account",
  audience: "a pool",
  subject_token_type: "urn:jwt",
  token_url: "https://tokens.example/v1/token",
  credential_source: { file: "/a token" },
};
const upstream = "base_url: https://service.example/v1";

describe("auth", () => {
  test("is a key in a header unless the channel says otherwise", async () => {
    expect(await read(upstream, "api_key: plain-key")).toEqual({ auth: undefined, secrets: ["plain-key"] });
  });

  test("aws signs for the region that is given, or that the address names", async () => {
    const keys = "api_key: AKID:secret/key:session";
    expect(await read(upstream, "auth: aws", "region: eu-west-1", keys)).toEqual({
      auth: { kind: "aws", region: "eu-west-1", service: "bedrock" },
      secrets: ["AKID:secret/key:session"],
    });
    expect((await read("base_url: https://bedrock-runtime.us-gov-west-1.amazonaws.com", "auth: aws", keys)).auth).toMatchObject({
      region: "us-gov-west-1",
    });
    expect(await problemsOf(upstream, "auth: aws", keys)).toEqual([
      "channels[0].region: this is missing: requests are signed for a region",
    ]);
  });

  test("google takes the file of a service account, and keeps it as one line", async () => {
    const { auth, secrets } = await read(upstream, "auth: google", "api_key_file: account.json");
    expect(auth).toMatchObject({ kind: "google", tokenUrl: "https://oauth2.googleapis.com/token" });
    expect(secrets[0]).toMatch(/^[\x21-\x7e]+$/);
    expect(serviceAccountOf(secrets[0] ?? "")).toEqual({ clientEmail: "robot@project.example", privateKey: pem, privateKeyId: "k1" });
  });

  test("google takes an external account, and keeps it as one line", async () => {
    const text = Buffer.from(JSON.stringify(external)).toString("base64");
    const { secrets } = await read(upstream, "auth: google", `api_key: ${text}`);
    expect(secrets[0]).toMatch(/^[\x21-\x7e]+$/);
    expect(externalAccountOf(secrets[0] ?? "")).toMatchObject({
      audience: "a pool",
      source: { kind: "file", path: "/a token" },
      tokenField: null,
    });
    for (const wrong of [
      { token_url: "http://tokens.example" },
      { credential_source: { executable: { command: "x" } } },
      { audience: 1 },
    ]) {
      expect(externalAccountOf(JSON.stringify({ ...external, ...wrong }))).toBeNull();
    }
  });

  test("aws, google and entra need no key: the machine may have an identity", async () => {
    expect((await read(upstream, "auth: aws", "region: r")).secrets).toEqual([]);
    expect((await read(upstream, "auth: google")).secrets).toEqual([]);
    expect((await read(upstream, "auth: entra")).auth).toMatchObject({ kind: "entra", tokenUrl: null });
  });

  test.each([
    [["auth: aws", "region: r", "api_key: only-one-part"], "channels[0].api_key: this is not a pair of access keys"],
    [["auth: entra", "api_key: only-one-part"], "channels[0].api_key: this is not the secret of an application"],
    [
      ["auth: google", "api_key: e30="],
      "channels[0].api_key: this is neither the JSON of a service account nor of an external account with a file or a URL",
    ],
    [
      ["auth: google", "api_key_file: other.json"],
      "channels[0].api_key_file: the file does not contain a key: this is neither the JSON of a service account nor of an external account with a file or a URL",
    ],
    [["token_url: https://tokens.example"], "channels[0].token_url: this channel requests no tokens"],
    [
      ["auth: google", "token_url: http://tokens.example"],
      "channels[0].token_url: credentials would be sent unencrypted over a public network",
    ],
    [["auth: google", "auth_header: x-key"], "channels[0].auth_header: this channel sends no key in a header"],
  ])("with %j is refused", async (lines, problem) => {
    expect(await problemsOf(upstream, ...lines)).toContain(problem);
  });

  test("of a channel that was added at run time may not use the identity of the machine", () => {
    const rules = { allowPrivate: false, localModels: [], own: [] };
    const entry = { name: "main", base_url: "https://service.example/v1", models: ["m"], auth: "google" };
    expect(readRuntimeChannel(entry, [], rules)).toMatchObject({ ok: false, problems: [{ path: "auth" }] });
    const secret = Buffer.from(JSON.stringify(account)).toString("base64");
    expect(readRuntimeChannel(entry, [secret], rules)).toMatchObject({ ok: true });
    const outside = Buffer.from(JSON.stringify(external)).toString("base64");
    expect(readRuntimeChannel(entry, [outside], rules)).toMatchObject({ ok: false, problems: [{ path: "auth" }] });
  });

  test("knows what of a secret must not be shown", () => {
    expect(secretPartsOf({ kind: "aws", region: "r", service: "s" }, "AKID:secret:session")).toEqual([
      "AKID:secret:session",
      "secret",
      "session",
    ]);
    expect(secretPartsOf({ kind: "entra", scope: "", tokenUrl: null }, "t:c:secret")).toEqual(["t:c:secret", "secret"]);
    expect(secretPartsOf({ kind: "google", scope: "", tokenUrl: "" }, JSON.stringify(account)).length).toBeGreaterThan(10);
  });
});
