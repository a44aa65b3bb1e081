import { escapeHtml, type PageHeading } from "./markdown.ts";
import type { NavigationGroup, NavigationItem } from "./navigation.ts";

/** What all pages share. */
export interface SiteFrame {
  readonly style: string;
  readonly script: string;
  readonly navigation: readonly NavigationGroup[];
}

export interface PageFrame {
  readonly title: string;
  readonly html: string;
  readonly headings: readonly PageHeading[];
  /** The address of a page or of the search, relative to this page. */
  readonly addressOf: (output: string) => string;
  readonly output: string;
  readonly previous: NavigationItem | null;
  readonly next: NavigationItem | null;
  /** A script of this page alone. */
  readonly script: string | null;
}

/** A page that needs no other file and no other host: the policy allows the styles and scripts that stand in it, by their hashes. */
export function pageHtml(site: SiteFrame, page: PageFrame): string {
  const scripts = [site.script, ...(page.script === null ? [] : [page.script])];
  const policy = [
    "default-src 'none'",
    `style-src ${hashOf(site.style)}`,
    `script-src ${scripts.map(hashOf).join(" ")}`,
    // For the icon, which is empty, so that no browser looks for one.
    "img-src data:",
    "base-uri 'none'",
  ].join("; ");
  const title = page.title === siteTitle ? siteTitle : `${page.title} · ${siteTitle}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escapeHtml(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
<style>${site.style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<a class="home" href="${page.addressOf("index.html")}">Sluice</a>
<a class="to-contents" href="#contents">Contents</a>
<form role="search" action="${page.addressOf("search.html")}">
<input type="search" name="q" placeholder="Search" aria-label="Search the documentation" aria-keyshortcuts="/">
</form>
</header>
<div class="columns">
<main id="content" tabindex="-1">
${page.html.replace("</h1>\n", () => `</h1>\n${tableOfContents(page.headings)}`)}
${turns(page)}</main>
<nav id="contents" class="contents" aria-label="Contents">
${site.navigation.map((group) => groupHtml(group, page)).join("\n")}
</nav>
</div>
${scripts.map((script) => `<script>${script}</script>`).join("\n")}
</body>
</html>
`;
}

export const siteTitle = "Sluice documentation";

function groupHtml({ title, items }: NavigationGroup, page: PageFrame): string {
  const links = items.map((item) => {
    const here = item.output === page.output ? ' aria-current="page"' : "";
    return `<li${item.depth > 1 ? ' class="inner"' : ""}><a href="${page.addressOf(item.output)}"${here}>${escapeHtml(item.title)}</a></li>`;
  });
  return `<h2>${escapeHtml(title)}</h2>\n<ul>\n${links.join("\n")}\n</ul>`;
}

/** Worth its place where there is something to choose from. */
function tableOfContents(headings: readonly PageHeading[]): string {
  const shown = headings.filter(({ level }) => level === 2 || level === 3);
  if (shown.length < 3) return "";
  const links = shown.map(({ level, id, text }) => `<li class="level-${level}"><a href="#${id}">${escapeHtml(text)}</a></li>`);
  return `<details class="on-this-page">\n<summary>On this page</summary>\n<ul>\n${links.join("\n")}\n</ul>\n</details>\n`;
}

function turns({ previous, next, addressOf }: PageFrame): string {
  const link = (item: NavigationItem | null, name: string, label: string): string =>
    item === null
      ? "<span></span>"
      : `<a rel="${name}" href="${addressOf(item.output)}"><small>${label}</small> ${escapeHtml(item.title)}</a>`;
  if (previous === null && next === null) return "";
  return `<nav class="turns" aria-label="Pages before and after">${link(previous, "prev", "Previous")}${link(next, "next", "Next")}</nav>\n`;
}

function hashOf(text: string): string {
  return `'sha256-${new Bun.CryptoHasher("sha256").update(text).digest("base64")}'`;
}
