/** A part of a text that is written in Markdown, as models write it: what they use most, and everything else as it stands. */
export type MarkdownBlock =
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "heading"; readonly spans: readonly MarkdownSpan[] }
  | { readonly kind: "list"; readonly ordered: boolean; readonly items: readonly (readonly MarkdownSpan[])[] }
  | { readonly kind: "text"; readonly spans: readonly MarkdownSpan[] };

export interface MarkdownSpan {
  readonly kind: "plain" | "strong" | "emphasis" | "code";
  readonly text: string;
}

/** Reads the blocks of a text. One that is not finished yet, such as a fence without an end, goes to the end of the text. */
export function markdownBlocks(text: string): readonly MarkdownBlock[] {
  const blocks: MarkdownBlock[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? "";
    const take = (holds: (line: string) => boolean): readonly string[] => {
      const from = at;
      while (at < lines.length && holds(lines[at] ?? "")) at += 1;
      return lines.slice(from, at);
    };
    if (fence.test(line)) {
      at += 1;
      const code = take((one) => !fence.test(one));
      at += 1;
      blocks.push({ kind: "code", text: code.join("\n") });
    } else if (heading.test(line)) {
      at += 1;
      blocks.push({ kind: "heading", spans: markdownSpans(line.replace(heading, "")) });
    } else if (item.test(line)) {
      const items = take((one) => item.test(one));
      blocks.push({ kind: "list", ordered: /^\s*\d/.test(line), items: items.map((one) => markdownSpans(one.replace(item, ""))) });
    } else if (line.trim() === "") {
      at += 1;
    } else {
      const words = take((one) => one.trim() !== "" && !fence.test(one) && !heading.test(one) && !item.test(one));
      blocks.push({ kind: "text", spans: markdownSpans(words.join("\n")) });
    }
  }
  return blocks;
}

const fence = /^\s*```/;
const heading = /^#{1,6} /;
const item = /^\s{0,6}(?:[-*+]|\d{1,3}[.)]) /;

/** Strong, emphasised and code; a link is shown as it is written, so that nobody is led somewhere by a model. */
function markdownSpans(text: string): readonly MarkdownSpan[] {
  const spans: MarkdownSpan[] = [];
  let at = 0;
  for (const match of text.matchAll(/`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])/g)) {
    if (match.index > at) spans.push({ kind: "plain", text: text.slice(at, match.index) });
    const [whole, code, strong, emphasis] = match;
    if (code !== undefined) spans.push({ kind: "code", text: code });
    else if (strong !== undefined) spans.push({ kind: "strong", text: strong });
    else spans.push({ kind: "emphasis", text: emphasis ?? whole });
    at = match.index + whole.length;
  }
  if (at < text.length) spans.push({ kind: "plain", text: text.slice(at) });
  return spans;
}
