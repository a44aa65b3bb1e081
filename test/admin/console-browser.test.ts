// Needs: alone. A browser uses all processors, and waits for pages by the clock.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { accessibilityProblems, chromiumPath, openBrowser, quiet, watched, withoutChromium, type Misdeeds } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { setUp, type Rig } from "../support/rig.ts";

// A machine that others use may be slow. None of these times is a promise.
setDefaultTimeout(240_000);

const model = "fast";
const password = "three unrelated words";
/** What a client or an operator could write into any field. */
const script = `<img src=x onerror="alert(1)"><script>alert(2)</script>`;

const pages = [
  "/console",
  "/console?span=1h",
  "/console/live",
  "/console/requests",
  "/console/channels",
  "/console/channels/sound",
  "/console/keys",
  "/console/usage",
  "/console/usage?by=day",
  "/console/setup",
  "/console/playground",
  "/console/playground?try=speech",
  "/console/playground?try=transcription",
  "/console/settings",
  "/console/settings/history",
  "/console/settings/audit",
  "/console/settings/prices?search=mini",
  "/console/settings/accounts",
  "/console/settings/webhooks",
];

/** The structure is judged wide and narrow, and the colours where they are other ones. */
const variants = [
  { width: 1440, colorScheme: "light", rules: "all" },
  { width: 360, colorScheme: "light", rules: "all" },
  { width: 360, colorScheme: "dark", rules: "colours" },
  { width: 1440, colorScheme: "dark", rules: "colours" },
] as const;

if (chromiumPath === null) console.warn(`The console is not tried in a browser: ${withoutChromium}.`);

describe.skipIf(chromiumPath === null)("in a browser, the console", () => {
  let rig: Rig<"broken" | "sound">;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let misdeeds: Misdeeds;
  let token = "";
  let last = "";
  let runPath = "/console/lab";

  beforeAll(async () => {
    rig = await setUp(
      { broken: { tier: 1, models: [model] }, sound: { tier: 2, models: [model] } },
      {
        admin: "127.0.0.1:0",
        keys: [{ name: "tester", key: "sk-client-canary-0123456789abcdef" }],
      },
    );
    browser = await openBrowser();
    context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    context.setDefaultTimeout(120_000);
    misdeeds = watched(context, rig.gateway.adminUrl);
    page = await context.newPage();
  });

  afterAll(async () => {
    await browser?.close();
    await rig?.[Symbol.asyncDispose]();
  });

  const open = async (path: string): Promise<void> => {
    await page.goto(rig.gateway.adminUrl + path);
    await page.locator("h1").waitFor();
  };
  const chat = async (): Promise<number> => {
    const response = await fetch(`${rig.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "user-agent": script },
      body: JSON.stringify({ model, messages: [{ role: "user", content: script }] }),
    });
    last = response.headers.get("x-request-id") ?? "";
    await response.text();
    return response.status;
  };

  test("leads from the first start to the first account", async () => {
    await open("/");
    await page.getByRole("heading", { name: "Create the first account" }).waitFor();
    await page.getByLabel("Token").fill(await readFile(join(rig.gateway.directory, "data/bootstrap-token"), "utf8"));
    await page.getByLabel("Name").fill("ada");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Create the account" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await page.getByText("ada").count()).toBeGreaterThan(0);
  });

  test("creates a key, shows it once, and the key works", async () => {
    await open("/console/keys");
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByLabel("Name").fill(`laptop ${script}`.slice(0, 190));
    await page.getByLabel("Budget in dollars").fill("5");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const shown = page.locator(".secret code");
    await shown.waitFor();
    token = (await shown.textContent()) ?? "";
    expect(token).toMatch(/^sk-gw_/);
    await page.getByRole("button", { name: "I have copied it" }).click();
    await eventually("the new key opens the gateway", async () => (await chat()) === 200, 10_000);
  });

  test("shows a request while it arrives, and why it was answered by the second channel", async () => {
    await open("/console/live");
    await page.getByText("connected", { exact: true }).waitFor();
    rig.upstream.broken.behaviour = "fault:status@500";
    expect(await chat()).toBe(200);
    await page.locator("table.live tbody tr").first().waitFor();
    await eventually("the live row has ended", async () => (await page.locator("table.live tbody").innerText()).includes("ok"), 10_000);
    await eventually(
      "the receipt is in the store",
      async () => {
        await open(`/console/requests/${last}`);
        return (await page.getByText("sound answered after").count()) > 0;
      },
      10_000,
    );
    expect(await page.locator(".waterfall li").count()).toBeGreaterThan(1);
  });

  test("shows a channel that cools down as a problem, and clears its cool-down", async () => {
    await eventually(
      "the broken channel cools down",
      async () => {
        await chat();
        await open("/console/channels/broken");
        return (await page.getByRole("button", { name: "Clear the cool-down" }).count()) > 0;
      },
      30_000,
    );
    rig.upstream.broken.behaviour = null;
    await page.getByRole("button", { name: "Clear the cool-down" }).click();
    await page.getByText("It works: nothing cools down.").waitFor();
  });

  test("breaks a channel in the lab, and shows the failover and what the clients saw", async () => {
    await open("/console/lab");
    await page.getByLabel("Scenario").selectOption("server-error");
    await page.getByText("lab-a answers every request with status 500.").waitFor();
    await page.getByLabel("Calls a second").fill("20");
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText("As promised:").waitFor();
    const calls = page.getByRole("region", { name: "Calls of the run" }).locator("tbody tr");
    expect(await calls.count()).toBe(6);
    expect(await calls.first().innerText()).toMatch(/lab-a → (lab-a → )?lab-b/);
    expect(await calls.first().locator(".segments i.failed").count()).toBeGreaterThan(0);
    expect(await calls.first().innerText()).toContain("the whole answer, 60 words");
    expect(await page.getByRole("region", { name: "Channels of the run" }).innerText()).toContain("overloaded");
    const { pathname, search } = new URL(page.url());
    expect(search).toContain("run=lab-");
    runPath = pathname + search;
  });

  test("renders what others wrote as text: nothing of it runs", async () => {
    for (const path of ["/console/keys", "/console/requests", "/console/settings/audit", "/console/usage?by=key"]) {
      await open(path);
      await page.getByText("<img src=x").first().waitFor();
    }
    expect(misdeeds.dialogs).toEqual([]);
    expect(await page.locator("img").count()).toBe(0);
  });

  test("turns the light green when the first request of a client arrives", async () => {
    await open("/console/setup");
    await page.getByText("Waiting for the first request").waitFor();
    await chat();
    await page.getByText("It works:").waitFor();
  });

  test.each([...pages, "the page of a request", "the page of a run"])(
    "is accessible and fits the screen, wide and narrow, light and dark: %s",
    async (path) => {
      await open(path.startsWith("/") ? path : path.endsWith("run") ? runPath : `/console/requests/${last}`);
      for (const { width, colorScheme, rules } of variants) {
        await page.setViewportSize({ width, height: 800 });
        await page.emulateMedia({ colorScheme });
        await quiet(page, misdeeds);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect([width, colorScheme, overflow, await accessibilityProblems(page, rules)]).toEqual([width, colorScheme, 0, []]);
      }
    },
  );

  test("revokes the key, which then is refused", async () => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await open("/console/keys");
    await page.getByRole("link", { name: /^laptop/ }).click();
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("button", { name: "Revoke it" }).click();
    await page.getByText("revoked").first().waitFor();
    await eventually("the key is refused", async () => (await chat()) === 401, 10_000);
  });

  test("signs out, and the session is gone", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to Sluice" }).waitFor();
    await open("/console/keys");
    await page.getByRole("heading", { name: "Sign in to Sluice" }).waitFor();
  });

  test("has asked nobody else, and caused no error and no violation of its content policy", () => {
    expect([misdeeds.errors, misdeeds.foreign, misdeeds.dialogs]).toEqual([[], [], []]);
  });
});
