/** Where a text stops being valid YAML, why, and how to fix it. */
export interface SyntaxProblem {
  readonly line: number;
  readonly reason: string;
  readonly fix: string;
}

/**
 * Finds the error in a text that is not valid YAML. A parser reports it where it can no longer continue, which for a bracket or a quote
 * may be many lines later; whoever fixes the file needs the line of the error. Only called for texts that the parser rejected; returns
 * null if it finds nothing.
 */
export function findSyntaxProblem(text: string): SyntaxProblem | null {
  return new SyntaxScan(text.split(/\r?\n/)).run() ?? null;
}

/** A group or a list, by how far its entries are indented. */
interface Block {
  readonly indent: number;
  readonly listed: boolean;
}

/** The entry that was read last. */
interface LastEntry {
  readonly line: number;
  readonly indent: number;
  /** Its value is expected on the next lines. */
  readonly expectsValue: boolean;
  /** A list entry that looks as if the space after its colon was left out. */
  readonly spaceless: boolean;
}

class SyntaxScan {
  private readonly blocks: Block[] = [];
  private last: LastEntry | null = null;
  private at = 0;

  constructor(private readonly lines: readonly string[]) {}

  run(): SyntaxProblem | undefined {
    while (this.at < this.lines.length) {
      const found = this.line(this.lines[this.at]!);
      if (found !== undefined) return found;
      this.at += 1;
    }
    return undefined;
  }

  private line(line: string): SyntaxProblem | undefined {
    let column = indentOf(line);
    if (line[column] === "\t" && line.trim() !== "" && line.trimStart()[0] !== "#") return this.problemHere(tab);
    if (column === line.length || line[column] === "#" || (column === 0 && /^(?:---|\.\.\.)(?:\s|$)/.test(line))) return undefined;
    let isEntry = false;
    while (line[column] === "-" && (column + 1 === line.length || line[column + 1] === " ")) {
      const misplaced = this.enterBlock(column, true);
      if (misplaced !== undefined) return misplaced;
      isEntry = true;
      const dash = column;
      column += 1;
      while (line[column] === " ") column += 1;
      this.last = { line: this.at, indent: dash, expectsValue: column === line.length || line[column] === "#", spaceless: false };
      if (this.last.expectsValue) return undefined;
      // What follows the dash belongs to the entry.
      this.last = { ...this.last, expectsValue: true };
    }
    const colon = colonOf(line, column);
    if (colon >= 0) return this.setting(line, column, colon);
    return isEntry ? this.entryValue(line, column) : this.continuation(line, column);
  }

  private setting(line: string, column: number, colon: number): SyntaxProblem | undefined {
    const misplaced = this.enterBlock(column, false);
    if (misplaced !== undefined) return misplaced;
    let start = colon + 1;
    while (line[start] === " ") start += 1;
    const expectsValue = start >= line.length || line[start] === "#" || /^[&!]\S*\s*(?:#.*)?$/.test(line.slice(start));
    this.last = { line: this.at, indent: column, expectsValue, spaceless: false };
    return expectsValue ? undefined : this.value(line, start, column);
  }

  private entryValue(line: string, column: number): SyntaxProblem | undefined {
    const indent = this.blocks.at(-1)?.indent ?? 0;
    this.last = { line: this.at, indent, expectsValue: false, spaceless: colonWithoutSpace.test(line.slice(column)) };
    return this.value(line, column, indent);
  }

  /** A line that is neither a setting nor a list entry: the continuation of a text above, or a setting without its colon. */
  private continuation(line: string, column: number): SyntaxProblem | undefined {
    const { last } = this;
    if (last === null) return this.value(line, column, -1);
    if (column > last.indent) {
      this.last = { ...last, expectsValue: false };
      return last.expectsValue ? this.value(line, column, last.indent) : undefined;
    }
    return this.problemHere(colonWithoutSpace.test(line.slice(column)) ? spaceless : missingColon);
  }

  /** Enters the block that a line belongs to by its indentation. */
  private enterBlock(column: number, listed: boolean): SyntaxProblem | undefined {
    const { blocks, last } = this;
    if (last === null) {
      blocks.push({ indent: column, listed });
      return undefined;
    }
    const opens = last.expectsValue && (column > last.indent || (listed && column === last.indent && blocks.at(-1)?.listed === false));
    if (opens) {
      blocks.push({ indent: column, listed });
      return undefined;
    }
    const indents = blocks.map(({ indent }) => indent);
    const inner = blocks.at(-1)!;
    if (column > inner.indent)
      return last.spaceless ? { ...spaceless, line: last.line + 1 } : this.problemHere(wrongIndentation(column, indents));
    while (
      blocks.length > 1 &&
      (blocks.at(-1)!.indent > column || (blocks.at(-1)!.indent === column && blocks.at(-1)!.listed && !listed))
    ) {
      blocks.pop();
    }
    const block = blocks.at(-1)!;
    return block.indent === column && block.listed === listed ? undefined : this.problemHere(wrongIndentation(column, indents));
  }

  /** Scans a value from its first character on, over all of its lines. */
  private value(line: string, start: number, indent: number): SyntaxProblem | undefined {
    const first = line[start];
    if (first === "&" || first === "!") {
      const next = /^\S+\s+/.exec(line.slice(start));
      return next === null ? undefined : this.value(line, start + next[0].length, indent);
    }
    if (first === "[" || first === "{") return this.brackets(start, indent);
    if (first === '"' || first === "'") return this.quoted(start);
    if (first === "|" || first === ">") this.skipText(indent);
    return undefined;
  }

  /** Skips a block scalar: all lines that are indented further. */
  private skipText(indent: number): void {
    while (this.at + 1 < this.lines.length) {
      const next = this.lines[this.at + 1]!;
      if (next.trim() !== "" && indentOf(next) <= indent) return;
      this.at += 1;
    }
  }

  private brackets(start: number, indent: number): SyntaxProblem | undefined {
    const open: { readonly bracket: string; readonly line: number }[] = [];
    const unclosed = (): SyntaxProblem => {
      const { bracket, line } = open.at(-1)!;
      return {
        line: line + 1,
        reason: `the bracket ${bracket} of this line is not closed`,
        fix: `add the ${closing[bracket]} where it ends`,
      };
    };
    for (let column = start; ; column += 1) {
      const line = this.lines[this.at]!;
      if (column >= line.length) {
        this.at += 1;
        if (this.at >= this.lines.length) return unclosed();
        const next = this.lines[this.at]!;
        const begins = indentOf(next);
        // Inside brackets, no line except the last bracket may be indented as little as the setting that they belong to.
        if (begins <= indent && (colonOf(next, begins) >= 0 || next.startsWith("- ", begins))) return unclosed();
        column = begins - 1;
        continue;
      }
      const character = line[column]!;
      if (character === "#" && (column === 0 || /\s/.test(line[column - 1]!))) column = line.length;
      else if ((character === '"' || character === "'") && /[\s[{,:]/.test(line[column - 1] ?? " ")) {
        const end = this.quoteEnd(column);
        if (end === null) return unclosed();
        column = end;
      } else if (character in closing) open.push({ bracket: character, line: this.at });
      else if (character === "]" || character === "}") {
        const { bracket, line: opened } = open.pop()!;
        if (closing[bracket] !== character) {
          const reason = `this ${character} does not close the bracket ${bracket} of line ${opened + 1}`;
          return this.problemHere({ reason, fix: `close that with ${closing[bracket]} first` });
        }
        if (open.length === 0) return this.trailing(column + 1);
      }
    }
  }

  private quoted(start: number): SyntaxProblem | undefined {
    const line = this.at;
    const unclosed = {
      line: line + 1,
      reason: "a closing quote is missing: the text that begins on this line does not end",
      fix: quoteFix,
    };
    const end = this.quoteEnd(start);
    if (end === null) return unclosed;
    // A quote lines later that seems to close this one is probably the opening quote of another value.
    return this.trailing(end + 1) === undefined ? undefined : this.at > line ? unclosed : this.trailing(end + 1);
  }

  /** The column of the closing quote; its line becomes the current one. Null if there is none. */
  private quoteEnd(start: number): number | null {
    const quote = this.lines[this.at]![start];
    const began = this.at;
    for (let column = start + 1; ; column += 1) {
      const line = this.lines[this.at]!;
      if (column >= line.length) {
        this.at += 1;
        if (this.at < this.lines.length) {
          column = -1;
          continue;
        }
        this.at = began;
        return null;
      }
      if (quote === '"' && line[column] === "\\") column += 1;
      else if (quote === "'" && line[column] === "'" && line[column + 1] === "'") column += 1;
      else if (line[column] === quote) return column;
    }
  }

  /** After a bracket or a quote only a comment may follow. */
  private trailing(column: number): SyntaxProblem | undefined {
    const rest = this.lines[this.at]!.slice(column).trimStart();
    if (rest === "" || rest[0] === "#") return undefined;
    if (rest[0] === "]" || rest[0] === "}") {
      return this.problemHere({ reason: `there is a bracket ${rest[0]} too many`, fix: `remove it, or add what opens it` });
    }
    return this.problemHere({
      reason: "something follows where the value has ended",
      fix: "put the whole value in quotes, or begin a new line",
    });
  }

  private problemHere({ reason, fix }: Omit<SyntaxProblem, "line">): SyntaxProblem {
    return { line: this.at + 1, reason, fix };
  }
}

const closing: Readonly<Record<string, string>> = { "[": "]", "{": "}" };
/** As in `name:value`, but not as in `http://host`. */
const colonWithoutSpace = /^[A-Za-z_][\w-]*:[^\s/]/;

const tab = { reason: "a tab is used for indentation", fix: "indent with spaces" };
const spaceless = { reason: "there is no space after the colon", fix: "write name: value" };
const missingColon = { reason: "a colon is missing", fix: "write name: value, with a space after the colon" };
const quoteFix = "add the closing quote, or write a quote inside of the text twice ('') or with a backslash (\\\")";

function wrongIndentation(column: number, indents: readonly number[]): Omit<SyntaxProblem, "line"> {
  const nearest = [...new Set(indents)].toSorted((a, b) => Math.abs(a - column) - Math.abs(b - column)).slice(0, indentsShown);
  const known = nearest.toSorted((a, b) => a - b);
  return {
    reason: `the indentation is wrong: ${spaces(column)} before this line, and ${known.join(", ")} before those around it`,
    fix: "indent with spaces, and the settings of one group equally far",
  };
}

/** A file can be nested thousands of levels deep. */
const indentsShown = 8;

function spaces(count: number): string {
  return count === 1 ? "1 space" : `${count === 0 ? "no" : count} spaces`;
}

function indentOf(line: string): number {
  let column = 0;
  while (line[column] === " ") column += 1;
  return column;
}

/** The column of the colon that makes a line a setting; -1 if there is none. */
function colonOf(line: string, start: number): number {
  const first = line[start];
  let column = start;
  if (first === '"' || first === "'") {
    column = line.indexOf(first, start + 1) + 1;
    if (column === 0) return -1;
    while (line[column] === " ") column += 1;
    return line[column] === ":" ? column : -1;
  }
  if (first === undefined || "[{]},#|>@`%".includes(first)) return -1;
  for (; column < line.length; column += 1) {
    if (line[column] === "#" && line[column - 1] === " ") return -1;
    if (line[column] === ":" && (column + 1 === line.length || line[column + 1] === " ")) return column;
  }
  return -1;
}
