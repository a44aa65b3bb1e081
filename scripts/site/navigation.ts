import { dirname, join } from "node:path";

/** The contents beside every page: the headings and links of docs/README.md. */
export interface NavigationGroup {
  readonly title: string;
  readonly items: readonly NavigationItem[];
}

export interface NavigationItem {
  readonly title: string;
  /** The file of the repository. */
  readonly source: string;
  /** The file of the site. */
  readonly output: string;
  /** 2 for the pages that the index of a folder lists. */
  readonly depth: 1 | 2;
}

export const startPage = "docs/README.md";

/** A list item that begins with a link is an entry. Where that is the index of a folder, the entries of that index follow it. */
export function navigationOf(read: (source: string) => string): readonly NavigationGroup[] {
  const groups: { readonly title: string; readonly items: NavigationItem[] }[] = [];
  for (const line of read(startPage).split("\n")) {
    const heading = /^## +(.*?) *$/.exec(line)?.[1];
    if (heading !== undefined) groups.push({ title: heading, items: [] });
    for (const item of entry(line, startPage, 1)) {
      groups.at(-1)?.items.push(item);
      if (!item.source.endsWith("/README.md")) continue;
      const inner = read(item.source)
        .split("\n")
        .flatMap((one) => entry(one, item.source, 2));
      groups.at(-1)?.items.push(...inner);
    }
  }
  return groups;
}

function entry(line: string, from: string, depth: 1 | 2): readonly NavigationItem[] {
  const [, title, target] = /^[-*] +\[([^\]]+)\]\(([^)#:\s]+\.md)\)/.exec(line) ?? [];
  if (title === undefined || target === undefined) return [];
  const source = join(dirname(from), target);
  return [{ title, source, output: outputOf(source), depth }];
}

/** `docs/` is the root of the site. Other files of the repository that pages link to are kept under their own paths. */
export function outputOf(source: string): string {
  const file = source.startsWith("docs/") ? source.slice("docs/".length) : join("repository", source);
  return file.replace(/(^|\/)README\.md$/, "$1index.md").replace(/\.md$/, ".html");
}
