import { fencedBlocks } from "./fences.ts";

/** A page of Markdown as HTML. */
export interface RenderedPage {
  readonly title: string;
  readonly html: string;
  readonly headings: readonly PageHeading[];
}

export interface PageHeading {
  readonly level: number;
  readonly id: string;
  readonly text: string;
}

/**
 * Renders a page with the runtime's own parser. HTML in the source is text, so that every tag of the result is the parser's,
 * and can be found by its pattern. `linkTo` gives the address of a link.
 */
export function renderMarkdown(markdown: string, linkTo: (target: string) => string): RenderedPage {
  const source = withoutComments(markdown);
  const headings: PageHeading[] = [];
  const taken = new Map<string, number>();
  const html = Bun.markdown
    .html(source, { noHtmlBlocks: true, noHtmlSpans: true, noIndentedCodeBlocks: true })
    .replaceAll(/<a href="([^"]*)"/g, (_, target: string) => `<a href="${escapeHtml(linkTo(unescapeHtml(target)))}"`)
    .replaceAll(/<h([1-6])>(.*?)<\/h\1>/g, (_, level: string, inner: string) => {
      const text = plainText(inner);
      const id = freeId(headingId(text), taken);
      headings.push({ level: Number(level), id, text });
      const anchor = level === "1" ? "" : ` <a class="anchor" href="#${id}" aria-label="Link to this section">#</a>`;
      return `<h${level} id="${id}">${inner}${anchor}</h${level}>`;
    })
    // What is wider than a phone scrolls by itself, and by keyboard.
    .replaceAll("<table>", '<div class="table" tabindex="0" role="region" aria-label="Table"><table>')
    .replaceAll("</table>", "</table></div>");
  return { title: headings.find(({ level }) => level === 1)?.text ?? "", html: withCodeBlocks(html, source), headings };
}

/** Comments go, except for those that are shown as code. */
function withoutComments(markdown: string): string {
  const codeOrComment = /^ *(`{3,})[^]*?^ *\1$|`+[^`]*`+|^<!--[^]*?-->\n|<!--[^]*?-->/gm;
  return markdown.replaceAll(codeOrComment, (found) => (found.startsWith("<!--") ? "" : found));
}

/** Each block gets the name of its file, which the parser drops, and a button that the script of the page shows. */
function withCodeBlocks(html: string, source: string): string {
  const blocks = fencedBlocks(source);
  let next = 0;
  const result = html.replaceAll(/<pre><code[^>]*>([^]*?)<\/code><\/pre>/g, (_, code: string) => {
    const { language = "", title = null } = blocks[next++] ?? {};
    const caption = title === null ? "" : `<figcaption>${escapeHtml(title)}</figcaption>`;
    const label = escapeHtml(title ?? (language || "text"));
    const button = '<button type="button" class="copy" hidden>Copy</button>';
    return `<figure class="code">${caption}${button}<pre tabindex="0" role="region" aria-label="${label}"><code>${code}</code></pre></figure>`;
  });
  if (next !== blocks.length) throw new Error(`${blocks.length} blocks of code were found, and ${next} were rendered`);
  return result;
}

/** The address of a heading, as GitHub makes it, so that the links of the pages work there and here. */
export function headingId(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}

function freeId(id: string, taken: Map<string, number>): string {
  const count = taken.get(id) ?? 0;
  taken.set(id, count + 1);
  return count === 0 ? id : `${id}-${count}`;
}

/** The text of HTML that the parser made. */
export function plainText(html: string): string {
  return unescapeHtml(html.replaceAll(/<[^>]*>/g, ""));
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => entities[character] ?? character);
}

function unescapeHtml(html: string): string {
  return html.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
}
