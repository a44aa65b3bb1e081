import type { CarefulOrder, CarefulReply } from "./careful-order.ts";
import { readCarefully } from "./careful-yaml.ts";
import { tooLarge } from "./file-text.ts";
import type { Environment } from "./interpolate.ts";
import { readPlainYaml } from "./plain-yaml.ts";
import type { PlainYaml } from "./plain-yaml.ts";
import type { Path, Problem } from "./problem.ts";
import { awaited } from "./turns.ts";
import type { Turns } from "./turns.ts";

/** A configuration as plain values, with variables put in, that can still tell on which line each of them stood. */
export interface Document {
  readonly value: unknown;
  /** Tells the lines of these settings, or of what holds them where a setting itself is absent. */
  readonly lines: (paths: readonly Path[]) => Turns<LineOf>;
}

export type LineOf = (path: Path) => number | null;

/** Has a text read where it keeps nobody waiting; null where that cannot be done. */
export type Elsewhere = (order: CarefulOrder) => Promise<CarefulReply | null>;

/** About ten times a file with ten thousand channels. */
const charactersMax = 16 * 1024 * 1024;
/**
 * The careful reader takes a second and 140 MB for so much of a usual file, five times that of one that is wrong in every place, and
 * more than its share for more. That is some six thousand channels.
 */
const carefulCharactersMax = 1024 * 1024;
/** What the careful reader reads in about as long as a thread takes to begin. */
const smallCharacters = 64 * 1024;

/**
 * Two readers, one answer: the quick one takes what is plainly written, the careful one everything else, mistakes above all. With
 * `elsewhere`, that one reads large texts there.
 */
export function* readDocument(
  text: string,
  environment: Environment,
  elsewhere: Elsewhere | null = null,
): Turns<Document | { readonly problems: readonly Problem[] }> {
  if (text.length > charactersMax) return { problems: [{ line: null, path: "", ...tooLarge }] };
  // Both line ends mean the same in all that the quick reader takes.
  const unix = text.replaceAll("\r\n", "\n");
  const plain = yield* readPlainYaml(unix, environment, 1);
  if (!("stoppedAt" in plain)) return { value: plain.value, lines: (paths) => plainLines(unix, environment, plain, paths) };
  if (text.length > carefulCharactersMax) return { problems: [tooLargeToJudge(lineAt(lineStarts(unix), plain.stoppedAt))] };

  const away = elsewhere !== null && text.length > smallCharacters ? yield* askedElsewhere(text, environment, elsewhere) : null;
  if (away !== null) return away;
  const careful = readCarefully(text, environment);
  return "problems" in careful ? careful : documentOf(careful.value, careful.lineOf);
}

/** Values whose lines are known already, or that come from no file. */
export function documentOf(value: unknown, lineOf: LineOf): Document {
  return {
    value,
    *lines() {
      yield;
      return lineOf;
    },
  };
}

/** Reads the text once more where it must: nearly always there is nothing to say of any line, or only of what stands at the top. */
function* plainLines(text: string, environment: Environment, known: PlainYaml, paths: readonly Path[]): Turns<LineOf> {
  if (paths.length === 0) return () => null;
  const stepsMax = paths.reduce((most, { length }) => Math.max(most, length), 0);
  const again = stepsMax <= 1 ? known : yield* readPlainYaml(text, environment, stepsMax);
  const plain = "stoppedAt" in again ? known : again;
  const starts = lineStarts(text);
  return (path) => lineAt(starts, plain.offsetOf(path));
}

/** The quick reader does not say what is wrong, but it knows where it could not go on. */
function tooLargeToJudge(line: number): Problem {
  return {
    line,
    path: "",
    reason: "this is wrong, or not plainly written, and in a file of more than 1 MiB everything has to be",
    mend:
      "here or just before: set each variable, close each quote and bracket, give each setting once, and use no anchors, aliases, " +
      "tags, tabs or texts over several lines (JSON is plain); or make the file smaller and keep keys in the store " +
      "(`sluice keys create`) and channels as well (the admin API)",
  };
}

function* askedElsewhere(
  text: string,
  environment: Environment,
  elsewhere: Elsewhere,
): Turns<Document | { readonly problems: readonly Problem[] } | null> {
  const reply = yield* awaited(elsewhere({ text, environment, paths: null }));
  if (reply === null || "problems" in reply) return reply;
  return {
    value: reply.value,
    *lines(paths) {
      const known = new Map(reply.lines.map(([path, line]) => [JSON.stringify(path), line]));
      const unknown = paths.filter((path) => !known.has(JSON.stringify(path)));
      const told = unknown.length === 0 ? null : yield* awaited(elsewhere({ text, environment, paths: unknown }));
      if (told !== null && "lines" in told) for (const [path, line] of told.lines) known.set(JSON.stringify(path), line);
      return (path) => known.get(JSON.stringify(path)) ?? null;
    },
  };
}

function lineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

/** How many lines begin at or before an offset. */
function lineAt(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
