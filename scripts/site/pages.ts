import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { renderMarkdown, type RenderedPage } from "./markdown.ts";
import { outputOf } from "./navigation.ts";

/** A page of the site, with what it links to. */
export interface SitePage {
  readonly source: string;
  readonly rendered: RenderedPage;
  /** Sections of pages that it links to. */
  readonly anchors: readonly { readonly page: string; readonly id: string }[];
  /** Other files of the repository that it links to: they are copied. */
  readonly files: readonly string[];
}

/** All pages of docs/, and those of the repository that they link to, by their source. What is wrong is added to `problems`. */
export function readPages(repository: string, problems: string[]): ReadonlyMap<string, SitePage> {
  const pages = new Map<string, SitePage>();
  const queue = readdirSync(join(repository, "docs"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => join("docs", file))
    .toSorted();
  for (const source of queue) {
    if (pages.has(source)) continue;
    const page = readPage(repository, source, problems);
    pages.set(source, page);
    queue.push(...page.anchors.map((anchor) => anchor.page));
  }
  for (const { source, anchors } of pages.values()) {
    for (const { page, id } of anchors) {
      const exists = id === "" || pages.get(page)?.rendered.headings.some((heading) => heading.id === id) === true;
      if (!exists) problems.push(`${source}: ${page} has no section #${id}`);
    }
  }
  return pages;
}

function readPage(repository: string, source: string, problems: string[]): SitePage {
  const anchors: { readonly page: string; readonly id: string }[] = [];
  const files: string[] = [];
  const rendered = renderMarkdown(readFileSync(join(repository, source), "utf8"), (target) => {
    if (/^(?:https?|mailto):/.test(target)) return target;
    const [path = "", id = ""] = target.split("#", 2);
    const file = path === "" ? source : fileAt(repository, join(dirname(source), decodeURI(path)));
    if (file === null) {
      problems.push(`${source}: the link to ${target} leads nowhere`);
      return target;
    }
    if (!file.endsWith(".md")) files.push(file);
    else anchors.push({ page: file, id });
    return addressOf(source, outputOf(file)) + (id === "" ? "" : `#${id}`);
  });
  const titles = rendered.headings.filter(({ level }) => level === 1).length;
  if (titles !== 1) problems.push(`${source}: it has ${titles} titles`);
  // The pages' policy allows none, and nothing is loaded from elsewhere.
  if (rendered.html.includes("<img")) problems.push(`${source}: it holds an image`);
  return { source, rendered, anchors, files };
}

/** The file at a path, or the page of a folder; null outside the repository, or where there is none. */
function fileAt(repository: string, path: string): string | null {
  if (path.startsWith("..")) return null;
  const found = statSync(join(repository, path), { throwIfNoEntry: false });
  if (found?.isDirectory() === true) return fileAt(repository, join(path, "README.md"));
  return found === undefined ? null : path;
}

/** The address of a file of the site, as the page of a source links to it. */
export function addressOf(source: string, output: string): string {
  return relative(dirname(outputOf(source)), output);
}
