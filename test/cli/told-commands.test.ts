// Needs: models. A damaged one says how to replace it.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { addonFolder, manifest, manifestName } from "../../packages/embedded/src/addons/installed.ts";
import { addons } from "../../packages/embedded/src/addons/table.ts";
import { chat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { clientKey } from "../support/rig.ts";

setDefaultTimeout(60_000);

let gateway: Gateway;

const openKey = "sk-without-any-limit-0123456789";

/** As `npm run sluice` starts it in a clone. */
const env = { npm_lifecycle_event: "sluice", npm_package_name: "sluice" };
const typed = "npm run --silent sluice --";

const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));

beforeAll(async () => {
  addHollow("whisper-tiny");
  gateway = await startGateway({
    config: {
      admin: "127.0.0.1:0",
      keys: [
        { name: "tester", key: clientKey, limits: { budget_usd: 1 } },
        { name: "open", key: openKey },
      ],
      channels: [
        { name: "embedded", provider: "embedded" },
        { name: "main", provider: "openai", api_key: "sk-none", base_url: "http://127.0.0.1:9/v1", models: { asked: "known-there" } },
      ],
    },
    env,
    directory,
  });
});

afterAll(async () => {
  await gateway.kill();
  rmSync(directory, { recursive: true, force: true });
});

/** An added model in its place: complete to all appearance, but its files are nothing but zeros. */
function addHollow(name: string): void {
  const addon = addons.find((candidate) => candidate.name === name)!;
  const folder = addonFolder(join(directory, "data"), name);
  for (const { path, bytes } of addon.files) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    truncateSync(file, bytes);
  }
  writeFileSync(join(folder, manifestName), manifest(addon));
}

async function toldBy(url: string, init: RequestInit = {}): Promise<string> {
  const answer = (await (await fetch(url, init)).json()) as { readonly error: { readonly message: string } };
  return answer.error.message;
}

test("a running gateway names the command that started it: to a client whose model has no price", async () => {
  const refused = await chat(gateway, { model: "asked" }, { key: clientKey });
  expect([refused.status, refused.error?.code]).toEqual([403, "price_unknown"]);
  expect(refused.error?.message).toEndWith(`: \`${typed} prices set known-there --provider openai\`.`);
  expect(refused.error?.message).toContain(`Set one with \`${typed} prices set\``);
});

test("a running gateway names the command that started it: to a client whose model is not installed", async () => {
  const refused = await chat(gateway, { model: "embedded/nothing" }, { key: clientKey });
  expect(refused.error?.message).toContain(`\`${typed} models list\` says`);
  const headers = { authorization: `Bearer ${clientKey}` };
  expect(await toldBy(`${gateway.url}/v1/models/embedded%2Fnothing`, { headers })).toContain(`\`${typed} models list\` says`);
});

test("a running gateway names the command that started it: in the log, for a model that is damaged", async () => {
  const body = new FormData();
  body.set("model", "embedded/whisper-tiny");
  body.set("file", new File([new Uint8Array(64)], "a.wav"));
  const headers = { authorization: `Bearer ${openKey}` };
  expect((await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: "POST", headers, body })).status).toBe(503);
  await eventually("a line of the log", () => gateway.text.includes(`Run ${typed} models remove whisper-tiny, and add it again.`));
});

test("a running gateway names the command that started it: where people sign in", async () => {
  const start = await fetch(`${gateway.adminUrl}/admin/api/start`);
  expect(await start.json()).toMatchObject({ command: typed });
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ secret: "of-no-link" }) };
  expect(await toldBy(`${gateway.adminUrl}/admin/api/login/link`, init)).toContain(`Run \`${typed} open\` again.`);
});
