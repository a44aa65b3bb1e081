/** A sentence of a page, and the promises that it is an instance of. */
export interface Claim {
  /** Of the page, from 1: where its paragraph begins. */
  readonly line: number;
  readonly sentence: string;
  readonly ids: readonly string[];
}

/**
 * The sentences of a page that somebody will hold us to: those with a number in them, or with a word that allows no exception. A
 * comment, which readers of the page do not see, says which promises the sentences of its paragraph are about, from the comment before
 * it on: `<!-- promise: id, id -->`. Code, headings, tables, and lists of links to other pages claim nothing.
 */
export function claimsOf(page: string): readonly Claim[] {
  return saidBy(page).filter(({ sentence }) => isClaim(sentence));
}

/** All sentences of a page: a claim without a number or an absolute word is known by nobody but its reader. */
export function saidBy(page: string): readonly Claim[] {
  return blocksOf(page).flatMap(({ line, text }) => sentencesOf(text).map((sentence) => ({ line, ...sentence })));
}

/** The ids in all comments of a page. */
export function idsOf(page: string): readonly string[] {
  return [...new Set([...page.matchAll(comment)].flatMap(([, list = ""]) => idsIn(list)))];
}

const comment = /<!-- promise: ([^>]*?) -->/g;
const numbers = /\d|\b(two|three|four|five|six|seven|eight|nine|ten|dozen|twenty|thirty|sixty|hundred|thousand|million)s?\b/i;
const absolutes =
  /\b(never|always|cannot|no|not even|none|nobody|nothing|every|everything|all|only|exact|exactly|unchanged|byte for byte|smallest|largest|fastest|best|cheapest)\b/i;

function isClaim(sentence: string): boolean {
  // What a command or an address contains is not said about the product.
  const said = sentence.replaceAll(/`[^`]*`/g, "").replaceAll(/\]\([^)]*\)/g, "]");
  // A single word is a name, such as that of a licence.
  return said.includes(" ") && (numbers.test(said) || absolutes.test(said));
}

interface Block {
  readonly line: number;
  readonly text: string;
}

/** Paragraphs and items of lists, each as one line. */
function blocksOf(page: string): readonly Block[] {
  const blocks: { line: number; lines: string[] }[] = [];
  let fenced = false;
  let open = false;
  for (const [at, line] of page.split("\n").entries()) {
    if (line.startsWith("```")) fenced = !fenced;
    if (fenced || /^(```|#|\||\s*$)/.test(line)) {
      open = false;
      continue;
    }
    if (!open || /^\s*(-|\d+\.) /.test(line)) blocks.push({ line: at + 1, lines: [] });
    open = true;
    blocks.at(-1)?.lines.push(line.trim());
  }
  return blocks.map(({ line, lines }) => ({ line, text: lines.join(" ") })).filter(({ text }) => !isLink(text));
}

/** An item of a list that begins with a link tells what another page is about. */
function isLink(text: string): boolean {
  return /^- \[[^\]]*\]\([^)]*\)/.test(text);
}

interface Sentence {
  readonly sentence: string;
  readonly ids: readonly string[];
}

/** A sentence ends with a stop before a space and the beginning of another. A comment belongs to those before it. */
function sentencesOf(text: string): readonly Sentence[] {
  // Sentences and ids take turns.
  const parts = text.replace(/^(-|\d+\.) /, "").split(comment);
  return parts.flatMap((said, at) => {
    if (at % 2 === 1) return [];
    const sentences = said.split(/(?<=[.!?:][*)"]*)\s+(?=[A-Z`*"[(])/).map((sentence) => sentence.trim());
    const ids = idsIn(parts[at + 1] ?? "");
    return sentences.filter((sentence) => sentence !== "").map((sentence) => ({ sentence, ids }));
  });
}

function idsIn(list: string): readonly string[] {
  return list
    .split(",")
    .map((id) => id.trim())
    .filter((id) => id !== "");
}
