/** A fenced block of a Markdown page: ```` ```json title="opencode.json" ````. */
export interface FencedBlock {
  readonly language: string;
  /** The file that it shows; null for one without a name. */
  readonly title: string | null;
  readonly text: string;
  /** The heading that it stands under. */
  readonly heading: string;
  /** Of its first line of text, counted from 1. */
  readonly line: number;
}

/** The fenced blocks of a page, in order. The pages are rendered with their titles, and the tests run what they hold. */
export function fencedBlocks(markdown: string): readonly FencedBlock[] {
  const blocks: FencedBlock[] = [];
  let heading = "";
  let open: OpenFence | null = null;
  for (const [index, line] of markdown.split("\n").entries()) {
    const [, indent = "", mark = "", info = ""] = /^( *)(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
    if (open !== null) {
      if (mark.startsWith(open.mark) && info.trim() === "") {
        blocks.push(blockOf(open, heading));
        open = null;
      } else open.lines.push(line.slice(Math.min(open.indent, line.length - line.trimStart().length)));
    } else if (mark !== "") open = { mark, indent: indent.length, info: info.trim(), lines: [], line: index + 2 };
    else heading = /^#{1,6} +(.*?) *$/.exec(line)?.[1] ?? heading;
  }
  if (open !== null) throw new Error(`the block that begins in line ${open.line - 1} has no end`);
  return blocks;
}

interface OpenFence {
  readonly mark: string;
  readonly indent: number;
  readonly info: string;
  readonly lines: string[];
  readonly line: number;
}

function blockOf({ info, lines, line }: OpenFence, heading: string): FencedBlock {
  const [, language = "", rest = ""] = /^(\S*)(.*)$/.exec(info) ?? [];
  const title = /\btitle="([^"]*)"/.exec(rest)?.[1] ?? null;
  return { language, title, text: lines.map((one) => `${one}\n`).join(""), heading, line };
}
