import { describe, expect, test } from "bun:test";
import { readDocument } from "../../../src/config/document.ts";
import { settingsFromEnvironment } from "../../../src/config/environment.ts";
import { explainedSettings, type ExplainedSetting } from "../../../src/config/explain/explain.ts";

async function explain(text: string, env: Readonly<Record<string, string>> = {}): Promise<ReadonlyMap<string, ExplainedSetting>> {
  const document = await readDocument(text, env);
  if ("problems" in document) throw new Error(JSON.stringify(document.problems));
  return new Map(explainedSettings(document, env).map((row) => [row.path, row]));
}

const text = `
listen: \${LISTEN:-127.0.0.1:1}
store: postgres://sluice:\${STORE_PASSWORD}@db:5432/main
defaults: &times { connect: 1s }
routing:
  attempts: 2
channels:
  - name: main
    api_keys: ["\${KEY_ONE}", short]
    headers: { x-team: "Bearer 0123456789abcdef" }
    timeouts: *times
webhooks:
  - { url: "https://hooks.example.com/services/T0/B0/\${HOOK_PATH}", secret: "\${HOOK_SECRET}" }
  - { url: https://pager.example.com, secret: "\${HOOK_SECRET}" }
`.replace("defaults: &times { connect: 1s }\n", "");

describe("explaining a configuration", () => {
  const file = text.replace("*times", "{ connect: 1s }");
  const env = {
    STORE_PASSWORD: "hunter2hunter2",
    KEY_ONE: "sk-upstream-0123456789",
    HOOK_PATH: "hook-path-of-a-chat",
    HOOK_SECRET: "whsec-0123456789",
  };

  test("names the line of every value that the file has", async () => {
    const rows = await explain(file, env);
    expect(rows.get("routing.attempts")).toMatchObject({ value: 2, origin: "file", line: 5, variables: [] });
    expect(rows.get("channels.main.timeouts.connect")).toMatchObject({ value: "1s", line: 10, numbered: "channels[0].timeouts.connect" });
  });

  test("names the variables of a value, and tells a variable that is set from a default that is written beside it", async () => {
    const rows = await explain(file, env);
    expect(rows.get("listen")).toMatchObject({ value: "127.0.0.1:1", origin: "file", line: 2, variables: ["LISTEN"] });
    expect((await explain(file, { ...env, LISTEN: "0.0.0.0:2" })).get("listen")).toMatchObject({
      value: "0.0.0.0:2",
      origin: "environment",
    });
    expect(rows.get("channels.main.api_keys")).toMatchObject({ origin: "environment", line: 8, variables: ["KEY_ONE"] });
  });

  test("gives the default of every other setting, as a value or in words", async () => {
    const rows = await explain(file, env);
    expect(rows.get("routing.rescue")).toMatchObject({ value: "auto", origin: "default", line: null, otherwise: null });
    expect(rows.get("channels.main.models")).toMatchObject({ value: null, otherwise: "discovered from the upstream's own list" });
    expect(rows.get("server.drain")).toMatchObject({ value: "120s", origin: "default" });
    // What is absent as a whole is one line.
    expect([rows.has("otel"), rows.has("otel.endpoint"), rows.has("keys"), rows.has("keys.name")]).toEqual([true, false, true, false]);
  });

  test("shows no secret: neither keys nor headers nor the password of a store nor the path of a webhook", async () => {
    const rows = await explain(file, env);
    expect(rows.get("channels.main.api_keys")?.value).toEqual(["****6789", "****"]);
    expect(rows.get("channels.main.headers")?.value).toEqual({ "x-team": "****cdef" });
    expect(rows.get("store")?.value).toBe("postgres://sluice:****@db:5432/main");
    expect(rows.get("webhooks.0.url")).toMatchObject({ value: "https://hooks.example.com/****", variables: ["HOOK_PATH"] });
    expect(rows.get("webhooks.1.url")?.value).toBe("https://pager.example.com");
    expect(JSON.stringify([...rows.values()])).not.toMatch(/hunter2|sk-upstream|Bearer 0|services|hook-path/);
  });

  test("follows aliases to the lines where they are written", async () => {
    const rows = await explain("channels:\n  - { name: a, base_url: &url http://a.example }\n  - name: b\n    base_url: *url\n");
    expect(rows.get("channels.b.base_url")).toMatchObject({ value: "http://a.example", line: 4 });
  });

  test("without a file, names the variable that brought each channel", () => {
    const env = { GROQ_API_KEY: "gsk-0123456789abcdef", SLUICE_KEY: "client-0123456789abcdef" };
    const found = settingsFromEnvironment({ env, nofile: 1024 });
    if (!found.ok) throw new Error("not usable");
    const rows = new Map(explainedSettings(found.document, env).map((row) => [row.path, row]));
    expect(rows.get("channels.groq.provider")).toMatchObject({ value: "groq", origin: "environment", variables: ["GROQ_API_KEY"] });
    expect(rows.get("keys.environment.key")).toMatchObject({ value: "****cdef", variables: ["SLUICE_KEY"] });
  });
});
