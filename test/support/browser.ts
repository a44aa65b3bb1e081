import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContext, type Page, type Request } from "playwright-core";
import { foundOrSkipped } from "./test-tools.ts";

/** The Chromium of this machine; null if there is none. `CHROMIUM_PATH` names another one. */
export const chromiumPath: string | null = foundOrSkipped(
  "chromium",
  "Chromium where it usually is",
  [process.env["CHROMIUM_PATH"] ?? "", "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
    (path) => path !== "" && existsSync(path),
  ) ?? null,
);

/** Tests that need a browser are skipped without one, in these words. */
export const withoutChromium = "there is no Chromium: install Debian's package `chromium`, or set CHROMIUM_PATH";

/** `microphone` is a file of sound that the browser takes for its microphone. */
export function openBrowser(microphone: string | null): Promise<Browser> {
  return chromium.launch({
    executablePath: chromiumPath ?? "",
    args: [
      // Tests may run as root, where the sandbox does not work, and load pages of this machine only.
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--use-fake-device-for-media-stream",
      "--use-fake-ui-for-media-stream",
      ...(microphone === null ? [] : [`--use-file-for-fake-audio-capture=${microphone}`]),
    ],
  });
}

/** What a page did that no page may do. */
export interface Misdeeds {
  readonly errors: string[];
  readonly foreign: string[];
  readonly dialogs: string[];
  /** Questions to the admin API that have no answer yet, but for streams. */
  readonly open: Set<Request>;
}

/** Watches a context: errors in the browser's log, which violations of the content policy are too, requests elsewhere, and dialogs. */
export function watched(context: BrowserContext, origin: string): Misdeeds {
  const misdeeds: Misdeeds = { errors: [], foreign: [], dialogs: [], open: new Set() };
  context.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    misdeeds.errors.push(`${message.type()}: ${message.text()} (${message.location().url})`);
  });
  context.on("weberror", (error) => misdeeds.errors.push(error.error().message));
  context.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("data:") && !request.url().startsWith("blob:"))
      misdeeds.foreign.push(request.url());
  });
  context.on("request", (request) => {
    if (!request.url().endsWith("/live")) misdeeds.open.add(request);
  });
  context.on("requestfinished", (request) => misdeeds.open.delete(request));
  context.on("requestfailed", (request) => misdeeds.open.delete(request));
  context.on("dialog", (dialog) => {
    misdeeds.dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  return misdeeds;
}

/** Waits until a page has asked what it wants to know and has drawn it. */
export async function quiet(page: Page, { open }: Misdeeds): Promise<void> {
  for (let still = 0; still < 3; still = open.size === 0 ? still + 1 : 0) {
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  }
}

const axeSource = readFileSync(join(import.meta.dir, "../node_modules/axe-core/axe.min.js"), "utf8");

/**
 * What axe finds wrong with a page, one line each, by all rules of WCAG 2.2 AA, or by those alone whose result depends on the colours or
 * on the width: the rest reads names and structure, which are the same in every variant.
 */
export async function accessibilityProblems(page: Page, rules: "all" | "colours" | "width"): Promise<readonly string[]> {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axeSource);
  return page.evaluate(async (asked) => {
    const { axe } = globalThis as unknown as { readonly axe: { run(context: unknown, options: unknown): Promise<AxeResults> } };
    const { violations } = await axe.run(document, {
      resultTypes: ["violations"],
      runOnly:
        asked === "all"
          ? { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }
          : {
              type: "rule",
              values: asked === "colours" ? ["color-contrast"] : ["target-size", "scrollable-region-focusable", "link-in-text-block"],
            },
    });
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} ${target.join(" ")}: ${failureSummary ?? ""}`),
    );
  }, rules);
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary?: string }[];
  }[];
}
