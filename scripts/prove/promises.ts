import { commandOf, type Command } from "./commands.ts";

/** Something that the product is held to, and what shows that it holds. */
export interface ProductPromise {
  readonly id: string;
  readonly claim: string;
  readonly commandText: string;
  readonly command: Command;
}

export interface PromiseTable {
  readonly promises: readonly ProductPromise[];
  /** What is wrong with the page, in words, each with its line. */
  readonly problems: readonly string[];
}

/** Reads the tables of docs/promises.md: `| id | promise | command |`, with the command in backticks. */
export function readPromises(page: string): PromiseTable {
  const promises: ProductPromise[] = [];
  const problems: string[] = [];
  for (const [at, line] of page.split("\n").entries()) {
    if (!isRow(line)) continue;
    const row = rowOf(line);
    const repeated = "problem" in row ? false : promises.some(({ id }) => id === row.id);
    if ("problem" in row) problems.push(`line ${at + 1}: ${row.problem}`);
    else if (repeated) problems.push(`line ${at + 1}: there is another promise ${row.id}`);
    else promises.push(row);
  }
  return { promises, problems };
}

function isRow(line: string): boolean {
  return line.startsWith("|") && !/^\|\s*id\s*\|/.test(line) && !/^\|[\s|:-]*\|$/.test(line);
}

function rowOf(line: string): ProductPromise | { readonly problem: string } {
  const cells = line
    .replace(/\|\s*$/, "")
    .split("|")
    .slice(1)
    .map((cell) => cell.trim());
  const [id = "", claim = "", shownBy = ""] = cells;
  if (cells.length !== 3) return { problem: "a promise has an id, a sentence and a command" };
  if (!/^[A-Za-z][A-Za-z0-9-]*$/.test(id)) return { problem: `"${id}" is not an id of letters, digits and dashes` };
  if (claim === "") return { problem: `${id} promises nothing` };
  const commandText = /^`([^`]+)`$/.exec(shownBy)?.[1] ?? "";
  const command = commandOf(commandText);
  return "problem" in command ? { problem: `${id}: ${command.problem}` } : { id, claim, commandText, command };
}
