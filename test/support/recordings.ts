import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { FailureKind } from "../../src/operations/failure.ts";
import type { Output } from "../../src/operations/emission.ts";
import type { TokenUsage } from "../../src/operations/usage.ts";

/** A stream as an upstream of one dialect sends it, and what must be made of it. See the README beside the files. */
export interface Recording {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly facts: RecordingFacts;
  /** From this length on, the end of the body is an end; before it, it is a cut. Infinite where it never is. */
  readonly wholeFrom: number;
}

export interface RecordingFacts {
  readonly about: string;
  readonly choices: number;
  readonly terminator: string | null;
  readonly text: readonly string[];
  readonly output: Output | null;
  readonly finish?: string | null;
  readonly usage?: Partial<TokenUsage> | null;
  readonly skipped?: number;
  readonly sends?: string;
  readonly fails?: FailureKind;
}

const root = new URL("../fixtures/streams/", import.meta.url);

/** The names of all folders of recordings. */
export function recordedDialects(): readonly string[] {
  return readdirSync(root, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
}

export function recordingsOf(dialect: string): readonly Recording[] {
  const folder = new URL(`${dialect}/`, root);
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((name) => name.endsWith(".sse"));
  const facts = JSON.parse(readFileSync(new URL("recordings.json", folder), "utf8")) as Record<string, RecordingFacts>;
  const names = new Set([...files.map((name) => name.slice(0, -".sse".length)), ...Object.keys(facts)]);
  return [...names].toSorted().map((name) => {
    const known = facts[name];
    if (known === undefined) throw new Error(`${dialect}/recordings.json does not say what ${name}.sse is about`);
    const bytes = new Uint8Array(readFileSync(new URL(`${name}.sse`, folder)));
    return { name, bytes, facts: known, wholeFrom: endOfEvent(bytes, known.terminator) };
  });
}

/** An answer of this dialect that is not streamed. */
export function recordedAnswer(dialect: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(`${dialect}/answer.json`, root)));
}

/** The length of a body that has all of this event but not the line ends behind it. */
function endOfEvent(bytes: Uint8Array, mark: string | null): number {
  if (mark === null) return Number.POSITIVE_INFINITY;
  // One character is one byte here.
  const text = Buffer.from(bytes).toString("latin1");
  const at = text.indexOf(mark);
  if (at < 0 || text.includes(mark, at + 1)) throw new Error(`a terminator must stand exactly once: ${mark}`);
  const end = /\r\n\r\n|\n\n|\r\r|$/g;
  end.lastIndex = at;
  return end.exec(text)!.index;
}
