import { expect, test } from "bun:test";
import { configurationPage } from "../../scripts/docs.ts";
import { loadConfig } from "../../src/config/load.ts";

const example = await Bun.file(new URL("../../examples/sluice.yaml", import.meta.url)).text();

test("docs/configuration.md says what the schema says (sh bin/bun scripts/docs.ts writes it)", async () => {
  expect(await Bun.file(new URL("../../docs/configuration.md", import.meta.url)).text()).toBe(await configurationPage());
});

test("the example can be used as it stands, and without a single warning", async () => {
  const names = [...example.matchAll(/\$\{([A-Z_0-9]+)\}/g)].map(([, name]) => name ?? "");
  const env = Object.fromEntries(names.map((name) => [name, `value-of-${name.toLowerCase()}-0123456789`]));
  const loaded = await loadConfig({ path: "examples/sluice.yaml", text: example, env, nofile: 20_000 });
  expect(loaded).toMatchObject({ ok: true, warnings: [] });
  if (loaded.ok) expect(loaded.settings.channels.map(({ name }) => name)).toEqual(["main", "pool", "backup", "local", "other"]);
});

test("every variable of the example is asked for by name when it is not set", async () => {
  const loaded = await loadConfig({ path: null, text: example, env: {}, nofile: 20_000 });
  const reasons = loaded.ok ? [] : loaded.problems.map(({ reason }) => reason);
  expect(reasons).toEqual(
    ["APP_KEY", "OPENAI_API_KEY", "GROQ_KEY_1", "GROQ_KEY_2", "AZURE_OPENAI_API_KEY", "OTHER_KEY"].map(
      (name) => `the environment variable ${name} is not set`,
    ),
  );
});
