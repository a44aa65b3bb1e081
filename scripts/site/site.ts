import { existsSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { pageHtml, siteTitle, type SiteFrame } from "./layout.ts";
import { plainText } from "./markdown.ts";
import { navigationOf, outputOf, startPage, type NavigationItem } from "./navigation.ts";
import { addressOf, readPages, type SitePage } from "./pages.ts";
import type { SearchEntry } from "./search.ts";

/**
 * Renders docs/ as pages (`npm run docs`): plain HTML that needs neither a server nor a network, with a search. A link or an anchor
 * that leads nowhere fails, and so does a page that docs/README.md does not list, because nobody would find it.
 */

/** The files of the site, by their paths in it. */
export type SiteFiles = ReadonlyMap<string, string | Uint8Array>;

/** What is wrong with the pages, all of it at once. */
export class BrokenSite extends Error {
  constructor(readonly problems: readonly string[]) {
    super(`The site was not written:\n${problems.map((problem) => `  ${problem}`).join("\n")}`);
  }
}

const root = resolve(import.meta.dir, "../..");

export async function renderSite(repository: string = root): Promise<SiteFiles> {
  const problems: string[] = [];
  const pages = readPages(repository, problems);
  if (!pages.has(startPage)) throw new BrokenSite([`${startPage} is missing: it lists the pages`]);
  const navigation = navigationOf((source) => readFileSync(join(repository, source), "utf8"));
  const order = navigation.flatMap(({ items }) => items);
  problems.push(...orderProblems([...pages.keys()], order));
  if (problems.length > 0) throw new BrokenSite(problems);

  const style = readFileSync(join(import.meta.dir, "style.css"), "utf8");
  const site = { style, script: await bundled("page.ts"), navigation };
  const files = new Map<string, string | Uint8Array>();
  for (const page of pages.values()) {
    files.set(outputOf(page.source), framed(site, order, page));
    for (const file of page.files) files.set(outputOf(file), readFileSync(join(repository, file)));
  }
  // In the order of the contents: guides go before the reasons for decisions.
  const listed = order.flatMap(({ source }) => pages.get(source) ?? []);
  files.set("search.html", searchPage(site, listed.flatMap(entriesOf), await bundled("search-page.ts")));
  return files;
}

/** Every page of docs/ is listed once. */
function orderProblems(sources: readonly string[], order: readonly NavigationItem[]): readonly string[] {
  return sources
    .filter((source) => source.startsWith("docs/") && source !== startPage)
    .flatMap((source) => {
      const times = order.filter((item) => item.source === source).length;
      return times === 1 ? [] : [`${source}: ${startPage} lists it ${times === 0 ? "nowhere" : `${times} times`}`];
    });
}

function framed(site: SiteFrame, order: readonly NavigationItem[], { source, rendered }: SitePage): string {
  const place = order.findIndex((item) => item.source === source);
  return pageHtml(site, {
    ...rendered,
    output: outputOf(source),
    addressOf: (output) => addressOf(source, output),
    previous: place < 1 ? null : (order[place - 1] ?? null),
    next: source === startPage ? (order[0] ?? null) : place < 0 ? null : (order[place + 1] ?? null),
    script: null,
  });
}

function searchPage(site: SiteFrame, entries: readonly SearchEntry[], script: string): string {
  const html = `<h1>Search</h1>
<p id="count" role="status"></p>
<ol id="hits"></ol>
<noscript><p>The search needs JavaScript; the contents list every page.</p></noscript>
<script type="application/json" id="entries">${JSON.stringify(entries).replaceAll("<", "\\u003c")}</script>`;
  const place = { output: "search.html", addressOf: (output: string) => output, previous: null, next: null };
  return pageHtml(site, { title: `Search · ${siteTitle}`, html, headings: [], script, ...place });
}

/** The sections of a page: what stands under each of its headings. */
function entriesOf({ source, rendered }: SitePage): readonly SearchEntry[] {
  const output = outputOf(source);
  return rendered.html.split(/(?=<h[1-6] id=)/).flatMap((part) => {
    const [, level, id] = /^<h([1-6]) id="([^"]*)">/.exec(part) ?? [];
    const heading = rendered.headings.find((one) => one.id === id);
    if (level === undefined || heading === undefined) return [];
    const body = part.slice(part.indexOf(`</h${level}>`));
    const text = plainText(body.replaceAll(/<button.*?<\/button>/g, "").replaceAll(/<\/(?:td|th|li|p|pre|figcaption)>/g, " "))
      .replaceAll(/\s+/g, " ")
      .trim();
    const isPage = heading.level === 1;
    return [{ address: isPage ? output : `${output}#${heading.id}`, page: rendered.title, section: isPage ? "" : heading.text, text }];
  });
}

async function bundled(name: string): Promise<string> {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dir, "browser", name)],
    target: "browser",
    format: "iife",
    minify: true,
  });
  const [output] = outputs;
  if (output === undefined) throw new Error(`${name} was believed to make one file, and made none.`);
  return (await output.text()).trim();
}

/** Replaces an earlier site, and nothing else. Returns the number of bytes. */
export async function writeSite(files: SiteFiles, folder: string): Promise<number> {
  if (existsSync(folder) && !existsSync(join(folder, "search.html"))) {
    throw new BrokenSite([`${folder} exists, and is not a site that was written before: remove it, or name another folder`]);
  }
  await rm(folder, { recursive: true, force: true });
  let bytes = 0;
  for (const [path, content] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
    bytes += Buffer.byteLength(content);
  }
  return bytes;
}

if (import.meta.main) {
  try {
    const folder = resolve(process.argv[2] ?? join(root, "site"));
    const files = await renderSite();
    const bytes = await writeSite(files, folder);
    const pages = [...files.keys()].filter((path) => path.endsWith(".html")).length;
    console.log(`${pages} pages, ${(bytes / 1_000_000).toFixed(1)} MB: open ${join(folder, "index.html")}`);
  } catch (error) {
    if (!(error instanceof BrokenSite)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
