import { mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { storeFile } from "../../src/store/open.ts";
import type { Bench, Scenario } from "../bench.ts";
import { oneChannel, type Gateway } from "../gateway.ts";
import { scratch } from "../processes.ts";
import { judged, type Row } from "../report.ts";
import { median } from "../statistics.ts";
import { keyOfYear, writeYear, yearOf } from "../year.ts";

/** What the console asks of a gateway with a year of calls. */
export const consoleScenario: Scenario = async (bench) => {
  const calls = bench.options.quick ? 200_000 : 10_000_000;
  // Every call of the year has its receipt.
  const year = yearOf(calls, Math.min(calls, bench.options.receipts ?? calls));
  const dataDir = join(scratch, "console-year");
  mkdirSync(dataDir, { recursive: true });
  const adminTokenFile = join(scratch, "console-token");
  writeFileSync(adminTokenFile, adminToken, { mode: 0o600 });
  try {
    console.error(`console, writing ${calls} calls and ${year.receipts} receipts into SQLite`);
    const beganMs = performance.now();
    await writeYear(year, { store: "sqlite", dataDir });
    const wroteSeconds = Math.round((performance.now() - beganMs) / 1_000);
    const gigabytes = (statSync(storeFile(dataDir)).size / 1e9).toFixed(1);
    bench.remark(`console: ${year.receipts} receipts in a file of ${gigabytes} GB, written in ${wroteSeconds} s`);
    // Else it would begin to delete what is older than 90 days.
    const gateway = await bench.gatewayWith({ ...oneChannel(bench.upstream), dataDir, adminTokenFile, receiptsKeep: "400d" });
    if (gateway === null) return [];
    const rows = [...(await answers(gateway, bench.options.quick)), ...(await pages(bench, gateway))];
    await gateway.stop();
    return rows;
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
};

const adminToken = "5f1c07d2a94be863c1d7f02b9a6e4835d0c2";
const headers = { authorization: `Bearer ${adminToken}` };

const questions: readonly (readonly [name: string, path: string, limitMs: number])[] = [
  ["the overview over 90 days", "/overview?span=90d", 200],
  ["the overview over 24 hours", "/overview?span=24h", 200],
  ["the first page of the requests", "/receipts?limit=50", 1_000],
  ["a page of the requests from half a year ago", "/receipts?limit=50&until=182d", 1_000],
  ["requests by status", "/receipts?limit=50&status=5xx", 1_000],
  ["requests of a key that makes few", `/receipts?limit=50&key=${keyOfYear(199)}`, 1_000],
  ["requests of a model", "/receipts?limit=50&model=model-07", 1_000],
  ["requests of a channel that failed", "/receipts?limit=50&channel=channel-3&state=failed", 1_000],
  ["requests by a cost that none has", "/receipts?limit=50&min_cost_usd=999999", 1_000],
  ["the usage by model over 90 days", "/usage?by=model&since=90d", 1_000],
  ["the usage by key over 90 days", "/usage?by=key&since=90d", 1_000],
  ["the outcomes over 90 days", "/outcomes?since=90d", 200],
  ["the outcomes by key over 90 days", "/outcomes?by=key&since=90d", 1_000],
  ["two models side by side over 90 days", "/comparison?model=model-01&other=model-02&since=90d", 200],
];

async function answers(gateway: Gateway, quick: boolean): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [name, path, limit] of questions) {
    console.error(`console, ${name}`);
    const tookMs: number[] = [];
    for (let round = 0; round < (quick ? 3 : 7); round += 1) {
      const beganMs = performance.now();
      const response = await fetch(`${gateway.adminUrl}/admin/api${path}`, { headers });
      await response.text();
      if (!response.ok) throw new Error(`${path} was answered with ${response.status}`);
      tookMs.push(performance.now() - beganMs);
    }
    rows.push(rowOf(`answer to ${name}`, "ms", tookMs, limit));
  }
  return rows;
}

/** From the address to the list that it shows. The first page has the bundling and is not counted. */
async function pages(bench: Bench, gateway: Gateway): Promise<readonly Row[]> {
  // The packages of the tests may not be installed.
  const found = await import("../../test/support/browser.ts").catch(() => null);
  if (found === null || found.chromiumPath === null) {
    bench.remark("console: pages in a browser are left out: there is no Chromium, or no playwright-core");
    return [];
  }
  const browser = await found.openBrowser(null);
  const context = await browser.newContext({ extraHTTPHeaders: headers });
  await context.addInitScript(() => localStorage.setItem("sluice.signed-in", "yes"));
  const page = await context.newPage();
  const rows: Row[] = [];
  for (const [name, path, drawn] of [
    ["requests, from the address to its list", "/console/requests", "tbody tr"],
    ["overview over 90 days, from the address to its charts", "/console?span=90d", ".chart canvas"],
  ] as const) {
    console.error(`console, the page of the ${name}`);
    const tookMs: number[] = [];
    for (let round = 0; round < 6; round += 1) {
      const beganMs = performance.now();
      await page.goto(`${gateway.adminUrl}${path}`);
      await page.locator(drawn).first().waitFor();
      if (round > 0) tookMs.push(performance.now() - beganMs);
    }
    rows.push(rowOf(`the page of the ${name}`, "ms", tookMs, 1_000));
  }
  await browser.close();
  return rows;
}

function rowOf(measure: string, unit: string, values: readonly number[], limit: number): Row {
  return { bar: "", measure, unit, raw: { gateway: values }, judgement: judged("gateway", median(values), { limit, sense: "at most" }) };
}
