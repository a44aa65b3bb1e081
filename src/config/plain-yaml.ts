import { interpolate, mayHoldVariable } from "./interpolate.ts";
import type { Environment } from "./interpolate.ts";
import type { Path } from "./problem.ts";
import type { Turns } from "./turns.ts";

/** The values of a text, and where they stand in it. */
export interface PlainYaml {
  readonly value: Readonly<Record<string, unknown>>;
  /** Where the setting that a path leads to begins, or what holds it where the setting itself is absent. */
  readonly offsetOf: (path: Path) => number;
}

/** Where, at the latest, the text is no longer plain. */
export interface NotPlainYaml {
  readonly stoppedAt: number;
}

/**
 * Reads the part of YAML that nearly every configuration is written in, JSON included, some thirty times faster than a reader of all
 * of YAML. Whatever is beyond that part, or wrong, or merely unusual, is not judged here: the answer says where it stands, and the
 * careful reader has the word. So this one may be narrow, but must never read a value that the other reads differently.
 *
 * Plain are: groups and lists by indentation, `[ ]` and `{ }`, one-line values with or without quotes, comments, and one `---` at the
 * beginning. Not plain are, among others: anchors, aliases, tags, texts over several lines, tabs, empty list entries, numbers other
 * than plain decimal ones, settings that are given twice, and variables that are not set.
 *
 * `stepsMax`: how long the paths are that offsets will be asked for. Keeping those of everything takes as long again as reading.
 */
export function* readPlainYaml(text: string, environment: Environment, stepsMax: number): Turns<PlainYaml | NotPlainYaml> {
  const reader = new PlainReader(text, environment, stepsMax);
  try {
    for (let step = 1; reader.step(); step += 1) if (step % stepsPerTurn === 0) yield;
    return reader.result();
  } catch (error) {
    if (error instanceof NotPlain) return { stoppedAt: reader.position };
    throw error;
  }
}

const stepsPerTurn = 256;
/** The settings nest five deep. */
const depthMax = 16;
const nodesMax = 1_000_000;
const keyCharactersMax = 256;

class NotPlain extends Error {}

type Group = Record<string, unknown>;
type Places = Map<object, Map<string | number, number>>;

/** A group or a list that is being read. */
interface Frame {
  readonly into: Group | unknown[];
  /** Where its entries begin in their lines. Of one in brackets: what its lines must at least be indented by. */
  readonly indent: number;
  /** The bracket that ends it; 0 where indentation does. */
  readonly close: number;
  /** The setting whose value comes next. */
  key: string;
  /** Its value was not on its own line, so it is on the next ones, or it is null. */
  waits: boolean;
}

/** Goes through the text once, a line or an entry at each step. What it is inside of stands on a stack, so it can stop anywhere. */
class PlainReader {
  private at = 0;
  private nodes = 0;
  private begun = false;
  private root: Group | null = null;
  private rootOffset = 0;
  private readonly frames: Frame[] = [];
  private readonly places: Places = new Map();
  private readonly hasVariables: boolean;

  constructor(
    private readonly text: string,
    private readonly environment: Environment,
    private readonly stepsMax: number,
  ) {
    this.hasVariables = mayHoldVariable(text);
  }

  get position(): number {
    return this.at;
  }

  /** False at the end of the text. */
  step(): boolean {
    const frame = this.frames.at(-1);
    if (frame !== undefined && frame.close !== 0) this.flowEntry(frame);
    else if (this.at >= this.text.length) return false;
    else this.line();
    return true;
  }

  result(): PlainYaml {
    const { root, places, rootOffset } = this;
    if (root === null) throw new NotPlain();
    for (const frame of this.frames) if (frame.waits) this.add(frame, null);
    const offsetOf = (path: Path): number => {
      let offset = rootOffset;
      let node: unknown = root;
      for (const step of path) {
        const place = typeof node === "object" && node !== null ? places.get(node)?.get(step) : undefined;
        if (place === undefined) break;
        offset = place;
        node = (node as Group)[step];
      }
      return offset;
    };
    return { value: root, offsetOf };
  }

  private line(): void {
    const { text } = this;
    const start = this.at;
    while (text.charCodeAt(this.at) === space) this.at += 1;
    const indent = this.at - start;
    const first = text.charCodeAt(this.at);
    if (first === newline || first === hash || Number.isNaN(first)) return this.restOfLine(true);
    if (indent === 0 && !this.begun && text.startsWith("---", this.at)) {
      this.begun = true;
      this.at += 3;
      return this.restOfLine(false);
    }
    this.begun = true;
    if (first === dash && text.charCodeAt(this.at + 1) === space) this.listEntry(this.frameFor(indent, true));
    else if (this.root === null && indent === 0 && first === braceOpen) this.openFlow(null, 0);
    else this.setting(this.frameFor(indent, false));
  }

  /** The group or the list that a line belongs to, by its indentation; a new one where a setting waits for its value. */
  private frameFor(indent: number, listed: boolean): Frame {
    const { frames } = this;
    let frame = frames.at(-1);
    if (frame === undefined) {
      // Of a text that is one whole group, nothing may follow its end.
      if (this.root !== null || indent !== 0 || listed) throw new NotPlain();
      this.rootOffset = this.at;
      return this.open(null, {}, 0, 0);
    }
    if (frame.waits) {
      if (indent > frame.indent || (listed && indent === frame.indent)) return this.open(frame, listed ? [] : {}, indent, 0);
      this.add(frame, null);
    }
    while (frame !== undefined && (frame.indent > indent || (frame.indent === indent && !listed && Array.isArray(frame.into)))) {
      frames.pop();
      frame = frames.at(-1);
    }
    if (frame === undefined || frame.indent !== indent || Array.isArray(frame.into) !== listed) throw new NotPlain();
    return frame;
  }

  private listEntry(list: Frame): void {
    const { text } = this;
    const dashAt = this.at;
    do this.at += 1;
    while (text.charCodeAt(this.at) === space);
    const first = text.charCodeAt(this.at);
    this.place(list, this.at);
    if (first === bracketOpen || first === braceOpen) return this.openFlow(list, list.indent + 1);
    const start = this.at;
    const quoted = first === doubleQuote || first === singleQuote;
    const word = quoted ? this.quoted(first) : this.plain(false);
    if (this.colonFollows(quoted)) {
      const group = this.open(list, {}, list.indent + start - dashAt, 0);
      this.checkKeyStart(start);
      this.name(group, word, start);
      return this.settingValue(group);
    }
    this.add(list, quoted ? this.filled(word) : this.resolved(word));
    this.restOfLine(false);
  }

  private setting(group: Frame): void {
    const start = this.at;
    const first = this.text.charCodeAt(start);
    const quoted = first === doubleQuote || first === singleQuote;
    this.checkKeyStart(start);
    const key = quoted ? this.quoted(first) : this.plain(false);
    if (!this.colonFollows(quoted)) throw new NotPlain();
    this.name(group, key, start);
    this.settingValue(group);
  }

  /** Stands behind the colon. */
  private settingValue(group: Frame): void {
    const { text } = this;
    while (text.charCodeAt(this.at) === space) this.at += 1;
    const first = text.charCodeAt(this.at);
    if (first === newline || first === hash || Number.isNaN(first)) {
      group.waits = true;
      return this.restOfLine(true);
    }
    if (first === bracketOpen || first === braceOpen) return this.openFlow(group, group.indent + 1);
    if (first === doubleQuote || first === singleQuote) this.add(group, this.filled(this.quoted(first)));
    else this.add(group, this.resolved(this.plain(false)));
    this.restOfLine(false);
  }

  /** One entry of a group or a list in brackets, or its end. */
  private flowEntry(frame: Frame): void {
    const { text } = this;
    let first = this.skip();
    if (first === frame.close) return this.closeFlows();
    if (!Array.isArray(frame.into)) {
      const start = this.at;
      const quoted = first === doubleQuote || first === singleQuote;
      this.checkKeyStart(start);
      const key = quoted ? this.quoted(first) : this.plain(true);
      if (text.charCodeAt(this.at) !== colon) throw new NotPlain();
      this.at += 1;
      // Only after a quote may the value follow at once.
      const next = text.charCodeAt(this.at);
      if (!quoted && next !== space && next !== newline) throw new NotPlain();
      this.name(frame, key, start);
      first = this.skip();
    } else {
      this.place(frame, this.at);
    }
    if (first === bracketOpen || first === braceOpen) return this.openFlow(frame, frame.indent);
    if (first === doubleQuote || first === singleQuote) this.add(frame, this.filled(this.quoted(first)));
    else this.add(frame, this.resolved(this.plain(true)));
    this.afterFlowEntry(frame);
  }

  private openFlow(parent: Frame | null, indent: number): void {
    const isList = this.text.charCodeAt(this.at) === bracketOpen;
    if (parent === null) this.rootOffset = this.at;
    this.at += 1;
    this.open(parent, isList ? [] : {}, indent, isList ? bracketClose : braceClose);
  }

  /** Stands at the bracket that ends the innermost one; those around it may end as well. */
  private closeFlows(): void {
    this.at += 1;
    this.frames.pop();
    const parent = this.frames.at(-1);
    if (parent !== undefined && parent.close !== 0) this.afterFlowEntry(parent);
    else this.restOfLine(false);
  }

  private afterFlowEntry(frame: Frame): void {
    const next = this.skip();
    if (next === frame.close) return this.closeFlows();
    if (next !== comma) throw new NotPlain();
    this.at += 1;
  }

  /** Goes on to what comes next inside brackets, over spaces, lines and comments, and returns its first character. */
  private skip(): number {
    const { text } = this;
    for (;;) {
      const code = text.charCodeAt(this.at);
      if (code === space) {
        this.at += 1;
      } else if (code === newline) {
        this.at += 1;
        this.checkFlowIndent();
      } else if (code === hash) {
        if (text.charCodeAt(this.at - 1) !== space) throw new NotPlain();
        this.at = this.endOfLine();
      } else return code;
    }
  }

  /** Lines inside brackets must be indented further than what the brackets belong to; a last bracket may stand right below it. */
  private checkFlowIndent(): void {
    const { text, frames } = this;
    let at = this.at;
    while (text.charCodeAt(at) === space) at += 1;
    const first = text.charCodeAt(at);
    if (first === newline || first === hash) return;
    const frame = frames.at(-1);
    const missing = (frame?.indent ?? 0) - (at - this.at);
    if (missing <= 0) return;
    const outermost = frames.at(-2)?.close === 0;
    if (missing > 1 || first !== frame?.close || !outermost) throw new NotPlain();
  }

  private open(parent: Frame | null, into: Group | unknown[], indent: number, close: number): Frame {
    if (this.frames.length >= depthMax) throw new NotPlain();
    if (parent === null) {
      if (Array.isArray(into)) throw new NotPlain();
      this.root = into;
      this.count();
    } else this.add(parent, into);
    const frame: Frame = { into, indent, close, key: "", waits: false };
    this.frames.push(frame);
    return frame;
  }

  private add(frame: Frame, value: unknown): void {
    this.count();
    frame.waits = false;
    if (Array.isArray(frame.into)) frame.into.push(value);
    else frame.into[frame.key] = value;
  }

  private count(): void {
    this.nodes += 1;
    if (this.nodes > nodesMax) throw new NotPlain();
  }

  private name(frame: Frame, key: string, offset: number): void {
    if (key.length > keyCharactersMax || key === "__proto__" || Object.hasOwn(frame.into, key)) throw new NotPlain();
    frame.key = key;
    this.place(frame, offset);
  }

  private place(frame: Frame, offset: number): void {
    if (this.frames.length > this.stepsMax) return;
    const known = this.places.get(frame.into) ?? new Map<string | number, number>();
    known.set(Array.isArray(frame.into) ? frame.into.length : frame.key, offset);
    this.places.set(frame.into, known);
  }

  /** A setting's name cannot begin like the mark of a document's end. */
  private checkKeyStart(at: number): void {
    const first = this.text.charCodeAt(at);
    if (first === dot || first === dash) throw new NotPlain();
  }

  /** Goes behind the colon that makes a setting's name of what was read. */
  private colonFollows(quoted: boolean): boolean {
    const { text } = this;
    if (text.charCodeAt(this.at) !== colon) return false;
    const next = text.charCodeAt(this.at + 1);
    if (next !== space && next !== newline && !Number.isNaN(next)) {
      if (quoted) throw new NotPlain();
      return false;
    }
    this.at += 1;
    return true;
  }

  /** Only spaces and a comment may be left. `bare`: nothing stands before them, so the comment needs no space. */
  private restOfLine(bare: boolean): void {
    const { text } = this;
    let spaced = bare;
    while (text.charCodeAt(this.at) === space) {
      this.at += 1;
      spaced = true;
    }
    const next = text.charCodeAt(this.at);
    if (next === hash && spaced) this.at = this.endOfLine();
    else if (next !== newline && !Number.isNaN(next)) throw new NotPlain();
    this.at += 1;
  }

  private endOfLine(): number {
    const end = this.text.indexOf("\n", this.at);
    return end === -1 ? this.text.length : end;
  }

  /** A word without quotes, up to what ends it: a colon and a space, a comment, the line, and inside brackets a comma or a bracket. */
  private plain(inFlow: boolean): string {
    const { text } = this;
    const start = this.at;
    this.checkPlainStart(start, inFlow);
    let at = start;
    let end = start;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code < 128) {
        const kind = kinds[code];
        if (kind === letter) end = at + 1;
        else if (kind === bracketOrComma) {
          if (inFlow) break;
          end = at + 1;
        } else if (code === colon) {
          const next = text.charCodeAt(at + 1);
          if (next === space || next === newline || Number.isNaN(next) || (inFlow && kinds[next] === bracketOrComma)) break;
          end = at + 1;
        } else if (code === space) {
          if (text.charCodeAt(at + 1) === hash) break;
        } else if (code === newline) break;
        else throw new NotPlain();
      } else if (Number.isNaN(code)) break;
      else if (isUnusual(code)) throw new NotPlain();
      else end = at + 1;
      at += 1;
    }
    this.at = at;
    return text.slice(start, end);
  }

  private checkPlainStart(at: number, inFlow: boolean): void {
    const { text } = this;
    const first = text.charCodeAt(at);
    if (first >= 128 || starts[first] === 1) return;
    const next = text.charCodeAt(at + 1);
    // Such as ./data, or -1.
    if ((first === dot && !inFlow) || first === dash) {
      if (next < 128 && (starts[next] === 1 || (first === dot && next === dot))) return;
    }
    throw new NotPlain();
  }

  private quoted(quote: number): string {
    const { text } = this;
    const start = this.at;
    const simple = quote === doubleQuote ? simpleDouble : simpleSingle;
    simple.lastIndex = start;
    if (simple.test(text)) {
      this.at = simple.lastIndex;
      return text.slice(start + 1, this.at - 1);
    }
    const escaped = quote === doubleQuote ? escapedDouble : escapedSingle;
    escaped.lastIndex = start;
    if (!escaped.test(text)) throw new NotPlain();
    this.at = escaped.lastIndex;
    const source = text.slice(start, this.at);
    return quote === doubleQuote ? (JSON.parse(source) as string) : source.slice(1, -1).replaceAll("''", "'");
  }

  /** What a word without quotes means: a number, true, false, nothing, or itself. */
  private resolved(word: string): unknown {
    const first = word.charCodeAt(0);
    if (first >= 128 || kinds[first] !== letter) return this.filled(word);
    if (isDigit(first)) {
      if (plainNumber.test(word)) return Number(word);
    } else if (wordStarts.has(first)) {
      const meaning = words.get(word);
      if (meaning !== undefined) return meaning;
    } else if (first !== dash && first !== dot && first !== plus) return this.filled(word);
    if (anyNumber.test(word)) throw new NotPlain();
    return this.filled(word);
  }

  private filled(value: string): string {
    if (!this.hasVariables || !mayHoldVariable(value)) return value;
    const filled = interpolate(value, this.environment);
    if (typeof filled !== "string") throw new NotPlain();
    return filled;
  }
}

const newline = 0x0a;
const space = 0x20;
const doubleQuote = 0x22;
const hash = 0x23;
const singleQuote = 0x27;
const plus = 0x2b;
const comma = 0x2c;
const dash = 0x2d;
const dot = 0x2e;
const colon = 0x3a;
const bracketOpen = 0x5b;
const bracketClose = 0x5d;
const braceOpen = 0x7b;
const braceClose = 0x7d;

const letter = 1;
const bracketOrComma = 2;

/** What a character below 128 is inside a word without quotes: controls, spaces and colons are none of these. */
const kinds = new Uint8Array(128);
for (let code = 0x21; code < 0x7f; code += 1) kinds[code] = letter;
for (const code of [comma, bracketOpen, bracketClose, braceOpen, braceClose]) kinds[code] = bracketOrComma;
kinds[colon] = 0;

/** With what a word without quotes may begin. */
const starts = new Uint8Array(128);
for (const character of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/$~+(") starts[character.charCodeAt(0)] = 1;

/** Controls, line ends of other standards, and the mark of a byte order. */
function isUnusual(code: number): boolean {
  return code < 0xa0 || code === 0x2028 || code === 0x2029 || code === 0xfeff;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/* Each of these looks at a character once, whatever the text. */
const simpleDouble = /"[^"\\\p{Cc}\u2028\u2029\ufeff]*"/uy;
const escapedDouble = /"[^"\\\p{Cc}\u2028\u2029\ufeff]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\p{Cc}\u2028\u2029\ufeff]*)*"/uy;
const simpleSingle = /'[^'\p{Cc}\u2028\u2029\ufeff]*'(?!')/uy;
const escapedSingle = /'[^'\p{Cc}\u2028\u2029\ufeff]*(?:''[^'\p{Cc}\u2028\u2029\ufeff]*)*'(?!')/uy;

/** Short enough to be exact, however it is read. */
const plainNumber = /^(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?$/;
/** Everything that YAML 1.2 takes for a number. */
const anyNumber = /^(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;

const words: ReadonlyMap<string, boolean | null> = new Map([
  ...["true", "True", "TRUE"].map((word) => [word, true] as const),
  ...["false", "False", "FALSE"].map((word) => [word, false] as const),
  ...["null", "Null", "NULL", "~"].map((word) => [word, null] as const),
]);
const wordStarts = new Set([...words.keys()].map((word) => word.charCodeAt(0)));
