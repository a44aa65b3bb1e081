import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { addReceipts } from "../src/store/receipts/receipt-table.ts";
import { addToSums } from "../src/store/receipts/usage-sums.ts";
import { requestNameOf, type AttemptReceipt, type Receipt } from "../src/usage/receipt.ts";
import { chromiumPath, openBrowser, quiet, watched, withoutChromium } from "../test/support/browser.ts";
import { startChaos } from "../test/support/chaos.ts";
import { openChat } from "../test/support/chat.ts";
import { startGateway } from "../test/support/gateway.ts";
import { newGroup } from "../test/support/groups.ts";
import { sampleReceipt } from "../test/support/journal-receipts.ts";
import { dollars, openKeys, type MadeKey } from "../test/support/keys.ts";

/**
 * Takes pictures of the console for the README into docs/screenshots: `npm run screenshots`. With the name of a folder it takes one of every
 * page, light and dark, wide and narrow, to look at. The gateway is a real one with invented traffic, the same each time but for its dates.
 */
if (chromiumPath === null) throw new Error(withoutChromium);

const reviewed = process.argv[2];
const folder = reviewed ?? join(import.meta.dir, "../docs/screenshots");
await rm(folder, { recursive: true, force: true });
await mkdir(folder, { recursive: true });

/** To look at, a format that everything can show. */
const kind = reviewed === undefined ? "webp" : "png";

const days = 60;
const calls = 18_000;
const dayMs = 86_400_000;
/** The pictures that are shown dark. */
const darkOnes = new Set(["live", "request"]);
const fastTempo = { tokens: 60, firstMs: 280, paceMs: 25 };
await using main = await startChaos({ name: "main", tempo: fastTempo });
await using spare = await startChaos({ name: "spare", tempo: { ...fastTempo, firstMs: 420 } });
const chatModels = { fast: "fast-2026", large: "large-2026" };
await using gateway = await startGateway({
  config: {
    admin: "127.0.0.1:0",
    keys: [{ name: "ci", key: "sk-screenshots-0123456789abcdef" }],
    channels: [
      { name: "main", base_url: main.url, api_key: "sk-upstream-main", tier: 1, weight: 3, models: chatModels },
      { name: "spare", base_url: spare.url, api_key: "sk-upstream-spare", tier: 1, models: chatModels },
      { name: "local", provider: "embedded", tier: 2 },
    ],
    prices: [{ model: "*", input: 0.4, output: 1.6 }],
  },
});
await using keys = await openKeys(gateway);
const { storage, database } = keys.store;
const operator = { kind: "cli", name: "ada" } as const;
const budget = (amount: number) => ({ budget: { nanos: dollars(amount), period: "month" as const } });
const web = await storage.groups.create("grp_web", newGroup("web", { limits: budget(400) }), [], operator);
const research = await storage.groups.create("grp_research", newGroup("research", { limits: budget(900) }), [], operator);
const made: MadeKey[] = [];
for (const [name, group, limit] of [
  ["search", web.id, 60],
  ["support", web.id, 25],
  ["laptop", null, 8],
  ["nightly", research.id, 200],
  ["evals", research.id, 80],
] as const)
  made.push(await keys.make({ name, group, limits: { budget_usd: limit, budget_period: "month", rpm: 600 } }));
await database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, traffic())));

const browser = await openBrowser(null);
const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
context.setDefaultTimeout(60_000);
const misdeeds = watched(context, gateway.adminUrl);
const page = await context.newPage();
const session = await context.newCDPSession(page);
await page.goto(gateway.adminUrl);
await page.getByLabel("Token").fill(await readFile(join(gateway.directory, "data/bootstrap-token"), "utf8"));
await page.getByLabel("Name").fill("ada");
await page.getByLabel("Password").fill("three unrelated words");
if (reviewed !== undefined) await taken("sign-in");
await page.getByRole("button", { name: "Create the account" }).click();
await page.getByRole("heading", { name: "Overview" }).waitFor();

// Some calls of today: most are answered by the first channel, some by another, because the first is broken for a while.
const ask = (at: number): Promise<string> => askedBy(made[at % made.length]!, at % 4 === 0 ? "large" : "fast");
for (let at = 0; at < 6; at += 1) await ask(at);
main.behaviour = "fault:status@503";
let rescued = "";
for (let at = 0, attempts = 0; attempts < 2; at += 1) {
  rescued = await ask(at);
  attempts = (await keys.receipt(rescued, 30_000)).attempts.length;
}
if (reviewed === undefined) main.behaviour = null;

await taken("overview", "/console?span=30d");
await taken("request", `/console/requests/${rescued}`);
await taken("requests", "/console/requests");
await taken("usage", "/console/usage?by=model");
await taken("keys", "/console/keys");
await taken("channels", "/console/channels");
await taken("groups", "/console/groups");
await taken("outcomes", "/console/outcomes?since=30d");
await taken("setup", "/console/setup");
await taken("settings", "/console/settings");
await takenLive();
await takenLab();
await takenPlayground();
if (reviewed !== undefined) {
  for (const [name, path] of [
    ["overview-1h", "/console?span=1h"],
    ["overview-24h", "/console"],
    ["overview-90d", "/console?span=90d"],
    ["requests-filtered", "/console/requests?state=failed"],
    ["channel", "/console/channels/main"],
    ["key", `/console/keys/${made[0]!.id}`],
    ["group", `/console/groups/${web.id}`],
    ["usage-key", "/console/usage?by=key"],
    ["usage-day", "/console/usage?by=day"],
    ["outcomes-caches", "/console/outcomes?view=caches&since=30d"],
    ["outcomes-models", "/console/outcomes?view=models&since=30d"],
    ["outcomes-invoice", "/console/outcomes?view=invoice"],
    ["playground-speech", "/console/playground?try=speech"],
    ["playground-transcription", "/console/playground?try=transcription"],
    ["history", "/console/settings/history"],
    ["audit", "/console/settings/audit"],
    ["prices", "/console/settings/prices"],
    ["accounts", "/console/settings/accounts"],
    ["webhooks", "/console/settings/webhooks"],
    ["nowhere", "/console/nowhere"],
  ] as const)
    await taken(name, path);
}
await browser.close();
if (misdeeds.errors.length > 0) console.error(misdeeds.errors.join("\n"));

async function takenLive(): Promise<void> {
  await page.goto(`${gateway.adminUrl}/console/live`);
  await page.getByText("connected", { exact: true }).waitFor();
  main.script(["ok", "fault:status@503", "fault:delay@900", "ok", "fault:status@503"]);
  const running = Array.from({ length: 14 }, async (_, at) => {
    await Bun.sleep(at * 190);
    return ask(at);
  });
  await Bun.sleep(2_700);
  await page.getByRole("button", { name: "Pause" }).click();
  await taken("live");
  await Promise.all(running);
}

async function takenLab(): Promise<void> {
  await page.goto(`${gateway.adminUrl}/console/lab`);
  await page.getByLabel("Scenario").selectOption("server-error");
  await page.getByLabel("Calls a second").fill("20");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("As promised:").waitFor();
  await taken("lab");
}

async function takenPlayground(): Promise<void> {
  await page.goto(`${gateway.adminUrl}/console/playground`);
  await page.getByRole("button", { name: "Create one for this page" }).click();
  await page.getByLabel("Models").fill("embedded/stories-15m");
  await page.getByLabel("Message", { exact: true }).fill("Once upon a time");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Why it went this way").waitFor();
  await taken("playground");
}

/** One picture for the README; to look at, one for each width and colour scheme, of the whole page. */
async function taken(name: string, path?: string): Promise<void> {
  if (path !== undefined) await page.goto(gateway.adminUrl + path);
  const widths = reviewed === undefined ? [1440] : [1440, 360];
  const schemes = (["light", "dark"] as const).filter((scheme) => reviewed !== undefined || (scheme === "dark") === darkOnes.has(name));
  for (const width of widths) {
    await page.setViewportSize({ width, height: reviewed === undefined ? 860 : 900 });
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme });
      await quiet(page, misdeeds);
      // Some charts and figures are drawn a moment after their answer.
      await Bun.sleep(300);
      const { data } = await session.send("Page.captureScreenshot", {
        format: kind,
        ...(kind === "webp" ? { quality: 80 } : {}),
        captureBeyondViewport: reviewed !== undefined,
      });
      const suffix = reviewed === undefined ? "" : `-${width}-${colorScheme}`;
      await writeFile(join(folder, `${name}${suffix}.${kind}`), Buffer.from(data, "base64"));
    }
  }
}

/** Returns the id of a finished call. */
async function askedBy({ token }: MadeKey, model: string): Promise<string> {
  const call = await openChat(gateway, { model }, { key: token, stream: true });
  return (await call.reply).requestId ?? "";
}

/** Two months, busier by day and from Monday to Friday, and a little more from week to week. */
function traffic(): readonly Receipt[] {
  const nowMs = Date.now();
  const first = nowMs - days * dayMs;
  const moments: number[] = [];
  for (let at = 0; at < calls * 3; at += 1) {
    const startedMs = Math.round(first + (at / (calls * 3)) * days * dayMs);
    const date = new Date(startedMs);
    const byHour = 0.5 - 0.45 * Math.cos(((date.getUTCHours() - 3) / 24) * 2 * Math.PI);
    const byDay = date.getUTCDay() % 6 === 0 ? 0.35 : 1;
    const byWeek = 0.72 + (0.28 * at) / (calls * 3) + 0.12 * Math.sin(date.getUTCDate() * 2.7);
    if (drawn(at) < byHour * byDay * byWeek) moments.push(startedMs);
  }
  return moments.map(receiptAt);
}

/** A number from 0 up to 1 that depends on nothing else. */
function drawn(at: number, salt = 1): number {
  return (Math.imul(at + 1, 2_654_435_761 + salt * 97) >>> 0) / 2 ** 32;
}

function receiptAt(startedMs: number, at: number): Receipt {
  const isOutage = Math.abs(startedMs - (Date.now() - 9.4 * dayMs)) < 5 * 3_600_000;
  const isFailed = drawn(at, 2) < (isOutage ? 0.3 : 0.008);
  const isLarge = drawn(at, 3) < 0.22;
  const isMoved = !isFailed && drawn(at, 4) < (isOutage ? 0.6 : 0.06);
  const promptTokens = 300 + Math.round(drawn(at, 5) * 4_000);
  const completionTokens = isFailed ? 0 : 40 + Math.round(drawn(at, 6) * 900);
  const firstContentMs = 180 + Math.round(-Math.log(1 - drawn(at, 7) * 0.99) * (isLarge ? 420 : 190));
  const tookMs = firstContentMs + completionTokens * (isLarge ? 14 : 6);
  const billedNanos = isFailed ? 0 : (promptTokens * 400 + completionTokens * 1_600) * (isLarge ? 12 : 3);
  const id = Bun.randomUUIDv7("hex", startedMs);
  const used = { promptTokens, cachedTokens: Math.round(promptTokens * 0.3), completionTokens, reasoningTokens: 0 };
  const figures = { ...used, audioSeconds: null, characters: null };
  const upstreamModel = isLarge ? chatModels.large : chatModels.fast;
  const answeredBy = isMoved ? "spare" : "main";
  const failedAttempt: AttemptReceipt = {
    ...sampleReceipt().attempts[0]!,
    ...{ channel: "main", model: upstreamModel, outcome: "failed", status: 503, error: "overloaded", blame: "channel" },
    ...{ tookMs: 140, nanos: 0, promptTokens: null, cachedTokens: null, completionTokens: null, reasoningTokens: null },
  };
  const answered: AttemptReceipt = {
    ...{ ...sampleReceipt().attempts[0]!, ...figures, channel: answeredBy, model: upstreamModel, nanos: billedNanos },
    ...{ afterMs: isMoved ? 150 : 1, tookMs: tookMs - (isMoved ? 150 : 1) },
  };
  return sampleReceipt({
    id,
    requestId: requestNameOf(id),
    startedMs,
    tookMs,
    firstContentMs: isFailed ? null : firstContentMs,
    keyId: made[Math.floor(drawn(at, 8) ** 1.7 * made.length)]!.id,
    model: isLarge ? "large" : "fast",
    upstreamModel: isFailed ? null : upstreamModel,
    channel: isFailed ? null : answeredBy,
    status: isFailed ? 503 : 200,
    state: isFailed ? "failed" : "complete",
    error: isFailed ? "overloaded" : null,
    delivered: figures,
    generatedTokens: completionTokens,
    billedNanos,
    finish: isFailed ? null : drawn(at, 9) < 0.03 ? "length" : drawn(at, 10) < 0.004 ? "content_filter" : null,
    cacheSavedNanos: isFailed ? null : figures.cachedTokens * 300 * (isLarge ? 12 : 3),
    attempts: [...(isFailed || isMoved ? [failedAttempt] : []), ...(isFailed ? [] : [answered])],
  });
}
