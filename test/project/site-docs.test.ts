import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { fencedBlocks } from "../../scripts/site/fences.ts";
import { headingId, renderMarkdown } from "../../scripts/site/markdown.ts";
import { searchFor, type SearchEntry } from "../../scripts/site/search.ts";
import { renderSite, writeSite, type SiteFiles } from "../../scripts/site/site.ts";
import { chromiumPath, openBrowser, watched, withoutChromium } from "../support/browser.ts";

// A browser may take long to start on a machine that others use. None of these times is a promise.
setDefaultTimeout(120_000);

const inBrowser = chromiumPath === null ? ` (skipped: ${withoutChromium})` : "";

const root = resolve(import.meta.dir, "../..");
const folder = mkdtempSync(join(tmpdir(), "sluice-site-"));
const site = join(folder, "site");
let printed = "";
let pages: ReadonlyMap<string, string>;

beforeAll(async () => {
  const command = Bun.spawn(["sh", "bin/bun", "scripts/site/site.ts", site], { cwd: root, stdout: "pipe", stderr: "inherit" });
  printed = await new Response(command.stdout).text();
  expect(await command.exited).toBe(0);
  const names = readdirSync(site, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".html"));
  pages = new Map(names.map((name) => [name, readFileSync(join(site, name), "utf8")]));
}, 60_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The values of an attribute in a page. */
function valuesOf(html: string, selector: string, attribute: string): string[] {
  const values: string[] = [];
  const note = (element: HTMLRewriterTypes.Element): void => void values.push(element.getAttribute(attribute) ?? "");
  new HTMLRewriter().on(selector, { element: note }).transform(html);
  return values.map((value) => value.replaceAll("&amp;", "&"));
}

describe("npm run docs", () => {
  test("makes a page of every file of docs/, and says how many, how large and where", () => {
    const sources = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));
    for (const source of sources) {
      expect([...pages.keys()]).toContain(source.replace(/README\.md$/, "index.md").replace(/\.md$/, ".html"));
    }
    expect(printed).toMatch(/^\d+ pages, \d\.\d MB: open \S+\/index\.html\n$/);
    expect(printed).toStartWith(`${pages.size} pages`);
    expect(printed).toContain(join(site, "index.html"));
  });

  test("makes links that lead to a file and an anchor, also without a server", () => {
    const broken = [...pages].flatMap(([name, html]) =>
      valuesOf(html, "a[href], form[action]", "href")
        .filter((href) => !/^(?:https?|mailto):/.test(href) && href !== "")
        .filter((href) => {
          const [path = "", id = ""] = href.split("#");
          const target = path === "" ? name : normalize(join(dirname(name), path));
          if (!existsSync(join(site, target)) || path.endsWith("/")) return true;
          return id !== "" && !valuesOf(pages.get(target) ?? "", "[id]", "id").includes(id);
        })
        .map((href) => `${name}: ${href}`),
    );
    expect(broken).toEqual([]);
    for (const [name, html] of pages) {
      const [action = ""] = valuesOf(html, "form", "action");
      expect(normalize(join(dirname(name), action))).toBe("search.html");
    }
  });

  test("makes pages that load nothing: no script, style, font or image of another file or host", () => {
    for (const [name, html] of pages) {
      expect([name, valuesOf(html, "[src], [srcset], [data], iframe, img, object, embed, base", "src")]).toEqual([name, []]);
      expect([name, valuesOf(html, "link", "href")]).toEqual([name, ["data:,"]]);
      for (const [, style = ""] of html.matchAll(/<style>([^]*?)<\/style>/g)) expect(style).not.toMatch(/url\(|@import/);
      expect(valuesOf(html, "[style], [onclick], [onload]", "style")).toEqual([]);
    }
  });

  test("makes pages whose policy allows their own styles and scripts, and nothing else", () => {
    for (const [name, html] of pages) {
      const [policy = ""] = valuesOf(html, "meta[http-equiv]", "content");
      expect(policy).toStartWith("default-src 'none'; ");
      expect(policy).not.toContain("unsafe");
      const parts = [...html.matchAll(/<(?:style|script)>([^]*?)<\/(?:style|script)>/g)].map(([, text = ""]) => text);
      expect([name, parts.length]).toEqual([name, name === "search.html" ? 3 : 2]);
      for (const part of parts) expect(policy).toContain(`'sha256-${new Bun.CryptoHasher("sha256").update(part).digest("base64")}'`);
    }
  });

  test("gives each page one title, the contents with its own place, and a way to the page before and after", () => {
    for (const [name, html] of pages) {
      expect([name, valuesOf(html, "h1", "id").length]).toEqual([name, 1]);
      expect(html).toContain('<html lang="en">');
      expect(valuesOf(html, "#contents a", "href").length).toBeGreaterThan(20);
      expect(valuesOf(html, "[aria-current]", "href").length).toBeLessThanOrEqual(1);
    }
    const configuration = pages.get("configuration.html") ?? "";
    expect(valuesOf(configuration, "[aria-current]", "href")).toEqual(["configuration.html"]);
    expect(valuesOf(configuration, "a[rel=prev], a[rel=next]", "href")).toHaveLength(2);
    expect(valuesOf(configuration, ".on-this-page a", "href")).toContain("#channels");
    expect(valuesOf(configuration, "figure.code button.copy", "type").length).toBeGreaterThan(0);
  });

  test("makes a search that finds settings, errors and words of headings", () => {
    const [, json = "[]"] = /<script type="application\/json" id="entries">([^]*?)<\/script>/.exec(pages.get("search.html") ?? "") ?? [];
    const entries = JSON.parse(json) as readonly SearchEntry[];
    const found = (query: string): readonly string[] => searchFor(query, entries).map(({ entry }) => entry.address);
    expect(found("max_tokens_ceiling")).toContain("configuration.html#channels");
    expect(found("litellm")).toContain("import.html");
    expect(found("model_not_allowed").some((address) => address.startsWith("errors.html"))).toBe(true);
    expect(found("Limits without Redis")[0]).toBe("replicas.html#limits-without-redis");
    expect(found("how to use Claude Code")[0]).toBe("guides/clients.html#claude-code");
    expect(found("how to restore backups")).toContain("store.html#backup-and-restore");
    expect(found("streaming").length).toBeGreaterThan(5);
    expect(found("no-such-word-anywhere")).toEqual([]);
    expect(found("  ?! ")).toEqual([]);
    for (const { address } of entries) expect(existsSync(join(site, address.split("#")[0]!))).toBe(true);
  });

  test.skipIf(chromiumPath === null)(
    `makes a search that a browser without a network opens as a file: what is asked for is found, and its link opens${inBrowser}`,
    async () => {
      const browser = await openBrowser(null);
      try {
        const context = await browser.newContext({ offline: true });
        context.setDefaultTimeout(60_000);
        const misdeeds = watched(context, pathToFileURL(`${site}/`).href);
        const page = await context.newPage();
        const search = pathToFileURL(join(site, "search.html")).href;
        const count = page.locator("#count");
        const links = page.locator("#hits a");
        await page.goto(`${search}?q=litellm`);
        await links.first().waitFor();
        expect(await page.locator("input[type=search]").inputValue()).toBe("litellm");
        const shown = await links.count();
        expect(await count.textContent()).toBe(`${shown} sections`);
        expect(await page.locator("#hits p").allTextContents()).toContainEqual(expect.stringMatching(/litellm/i));
        const addresses = await links.evaluateAll((all) => all.map((link) => (link as HTMLAnchorElement).href));
        expect(addresses.filter((address) => !existsSync(fileURLToPath(address)))).toEqual([]);
        expect(addresses.map((address) => address.split("#")[0])).toContain(pathToFileURL(join(site, "import.html")).href);

        // What is typed is found at once.
        const typed = page.locator("input[type=search]");
        await typed.fill("no-such-word-anywhere");
        await count.getByText("Nothing was found.", { exact: true }).waitFor();
        expect(await links.count()).toBe(0);
        await typed.fill("Limits without Redis");
        const hit = page.locator("#hits li:first-child a", { hasText: "Limits without Redis" });
        const title = /^[^:]+/.exec((await hit.textContent()) ?? "")?.[0];
        await hit.click();
        await page.waitForURL(`${pathToFileURL(join(site, "replicas.html")).href}#limits-without-redis`);
        expect((await page.locator("h1").textContent())?.trim()).toBe(title);

        // And every page asks it, from wherever it is.
        await page.goto(pathToFileURL(join(site, "guides/clients.html")).href);
        await page.keyboard.press("/");
        await page.keyboard.type("LiteLLM");
        await page.keyboard.press("Enter");
        await page.waitForURL(`${search}?q=LiteLLM`);
        await links.first().waitFor();
        expect(await links.count()).toBe(shown);
        expect(misdeeds).toMatchObject({ errors: [], foreign: [], dialogs: [] });
      } finally {
        await browser.close();
      }
    },
  );
});

describe("a site that would not work is not written", () => {
  /** A repository of these files. */
  function repository(files: Readonly<Record<string, string>>): Promise<SiteFiles> {
    const place = mkdtempSync(join(folder, "repository-"));
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(place, name)), { recursive: true });
      writeFileSync(join(place, name), text);
    }
    return renderSite(place);
  }

  const list = "# Pages\n\n## All\n\n- [One](one.md)\n";

  test.each([
    ["a link to a page that is not there", { "docs/README.md": list, "docs/one.md": "# One\n\n[x](two.md)\n" }, "two.md leads nowhere"],
    ["an anchor that is not there", { "docs/README.md": list, "docs/one.md": "# One\n\n[x](#two)\n" }, "docs/one.md has no section #two"],
    ["a link out of the repository", { "docs/README.md": list, "docs/one.md": "# One\n\n[x](../../etc)\n" }, "leads nowhere"],
    ["a page that is not listed", { "docs/README.md": list, "docs/one.md": "# One\n", "docs/two.md": "# Two\n" }, "lists it nowhere"],
    ["a page without a title", { "docs/README.md": list, "docs/one.md": "Text\n" }, "it has 0 titles"],
    ["a page with two titles", { "docs/README.md": list, "docs/one.md": "# One\n\n# Two\n" }, "it has 2 titles"],
    ["an image", { "docs/README.md": list, "docs/one.md": "# One\n\n![x](https://example.com/x.png)\n" }, "it holds an image"],
    ["no list of pages", { "docs/one.md": "# One\n" }, "docs/README.md is missing"],
    ["a block without an end", { "docs/README.md": list, "docs/one.md": "# One\n\n```sh\necho\n" }, "line 3 has no end"],
  ])("%s", async (_, files: Record<string, string>, said) => {
    expect((await repository(files).catch((error: unknown) => error)) as Error).toHaveProperty("message", expect.stringContaining(said));
  });

  test("and a folder with something else in it is left alone", async () => {
    const other = join(folder, "other");
    mkdirSync(other);
    writeFileSync(join(other, "mine.txt"), "x");
    const files = await repository({ "docs/README.md": list, "docs/one.md": "# One\n" });
    expect(await writeSite(files, other).catch((error: unknown) => String(error))).toContain("is not a site");
    expect(readdirSync(other)).toEqual(["mine.txt"]);
    expect(await writeSite(files, join(folder, "new"))).toBeGreaterThan(1_000);
    expect(await writeSite(files, join(folder, "new"))).toBeGreaterThan(1_000);
  });
});

describe("a page", () => {
  const render = (markdown: string): string => renderMarkdown(markdown, (target) => target).html;

  test("shows HTML of its source as text", () => {
    expect(render("# A\n\n<script>alert(1)</script> <img src=x>\n\n`<b>`\n")).not.toMatch(/<script|<img|<b>/);
    expect(render('# A\n\n[x](https://example.com/"><script>)\n')).not.toContain("<script");
  });

  test("shows no comments, except as code", () => {
    const html = render("# A\n\n<!-- one\nmore -->\n\n- b <!-- two `x` -->\n- `<!-- three -->`\n\n```html\n<!-- four -->\n```\n");
    expect(html).not.toMatch(/one|two/);
    expect(html).toContain("<code>&lt;!-- three --&gt;</code>");
    expect(html).toContain("&lt;!-- four --&gt;");
    expect(html.match(/<li>/g)).toHaveLength(2);
  });

  test("has GitHub's anchors, each once", () => {
    expect(["`keys[].limits`", "One machine: `--workers`", "What, and why?"].map((text) => headingId(text))).toEqual([
      "keyslimits",
      "one-machine---workers",
      "what-and-why",
    ]);
    const { headings } = renderMarkdown("# A\n\n## B\n\n## B\n", (target) => target);
    expect(headings.map(({ id }) => id)).toEqual(["a", "b", "b-1"]);
  });

  test("names the file of a block, in lists as well", () => {
    const markdown =
      '# A\n\n```json title="a.json"\n{}\n```\n\n- item\n\n  ```sh\n  echo\n    two\n  ```\n\n## B\n\n````md\n```sh\n```\n````\n';
    expect(fencedBlocks(markdown)).toEqual([
      { language: "json", title: "a.json", text: "{}\n", heading: "A", line: 4 },
      { language: "sh", title: null, text: "echo\n  two\n", heading: "A", line: 10 },
      { language: "md", title: null, text: "```sh\n```\n", heading: "B", line: 17 },
    ]);
    expect(render(markdown)).toContain("<figcaption>a.json</figcaption>");
  });
});
