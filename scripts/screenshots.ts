import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Receipt } from "../src/usage/receipt.ts";
import { addReceipts } from "../src/store/receipts/receipt-table.ts";
import { addToSums } from "../src/store/receipts/usage-sums.ts";
import { chromiumPath, openBrowser, quiet, watched, withoutChromium } from "../test/support/browser.ts";
import { sampleReceipt } from "../test/support/journal-receipts.ts";
import { openKeys } from "../test/support/keys.ts";
import { setUp } from "../test/support/rig.ts";

/**
 * Takes a picture of each page of the console, light and dark, into docs/screenshots: `npm run screenshots`. The gateway is a real one with
 * invented traffic, which is the same each time but for its dates.
 */
if (chromiumPath === null) throw new Error(withoutChromium);

const folder = join(import.meta.dir, "../docs/screenshots");
await mkdir(folder, { recursive: true });
const password = "three unrelated words";
await using rig = await setUp(
  { main: { tier: 1, models: ["fast", "large"] }, spare: { tier: 2, models: ["fast", "large"] } },
  { admin: "127.0.0.1:0" },
);
const keys = await openKeys(rig.gateway);
const { storage, database } = keys.store;
const made: { readonly id: string }[] = [];
for (const name of ["laptop", "search", "support", "nightly"])
  made.push(await keys.make({ name, limits: { budget_usd: 50, budget_period: "month" } }));
await database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, traffic(made.map(({ id }) => id)))));
for (let call = 0; call < 12; call += 1) {
  if (call === 6) rig.upstream.main.behaviour = "fault:status@500";
  await rig.chat({ model: "fast" });
}

const browser = await openBrowser(null);
const context = await browser.newContext({ viewport: { width: 1200, height: 750 }, reducedMotion: "reduce" });
const misdeeds = watched(context, rig.gateway.adminUrl);
const page = await context.newPage();
await page.goto(rig.gateway.adminUrl);
await page.getByLabel("Token").fill(await readFile(join(rig.gateway.directory, "data/bootstrap-token"), "utf8"));
await page.getByLabel("Name").fill("ada");
await page.getByLabel("Password").fill(password);
await page.getByRole("button", { name: "Create the account" }).click();
await page.getByRole("heading", { name: "Overview" }).waitFor();
const anything = { keyId: null, model: null, channel: null, state: null, sinceMs: null, untilMs: null, before: null };
const last = (await storage.receipts.list({ ...anything, limit: 1 }))[0]?.id ?? "";

for (const [name, path] of [
  ["overview", "/console?span=30d"],
  ["requests", "/console/requests"],
  ["request", `/console/requests/${last}`],
  ["channels", "/console/channels/main"],
  ["keys", "/console/keys"],
  ["usage", "/console/usage?by=model"],
  ["setup", "/console/setup"],
  ["playground", "/console/playground"],
] as const) {
  await page.goto(rig.gateway.adminUrl + path);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await quiet(page, misdeeds);
    // Some charts and figures are drawn a moment after their answer.
    await page.waitForTimeout(300);
    await page.screenshot({ path: join(folder, `${name}-${colorScheme}.jpg`), type: "jpeg", quality: 72 });
  }
}
await browser.close();
await keys[Symbol.asyncDispose]();

/** Thirty days, busier by day and from Monday to Friday. */
function traffic(keyIds: readonly string[]): readonly Receipt[] {
  const nowMs = Date.now();
  return Array.from({ length: 3_000 }, (_, at) => {
    const startedMs = nowMs - Math.round(((3_000 - at) / 3_000) * 30 * 86_400_000 + 3_600_000 * Math.sin(at));
    const isFailed = at % 97 === 0;
    return sampleReceipt({
      id: Bun.randomUUIDv7("hex", startedMs),
      startedMs,
      keyId: keyIds[at % 7 === 0 ? 1 : at % keyIds.length] ?? "",
      model: at % 5 === 0 ? "large" : "fast",
      channel: at % 11 === 0 ? "spare" : "main",
      status: isFailed ? 503 : 200,
      state: isFailed ? "failed" : "complete",
      error: isFailed ? "overloaded" : null,
      tookMs: 400 + ((at * 37) % 4_000),
      billedNanos: 200_000 + ((at * 7_919) % 9_000_000),
    });
  });
}
