import { readFileSync } from "node:fs";

/**
 * What a test file needs, declared in its first line together with the reason: `// Needs: alone, servers. It measures memory.`
 *
 * - `alone`: nothing else may run at the same time, because the file measures time, memory or open files.
 * - `quiet`: the file checks real times, but it mostly waits, so that other files of this kind may run beside it.
 * - `servers`: it needs a PostgreSQL or a Redis.
 * - `models`: it runs the models of packages/embedded, which keep all processors busy.
 * - `long`: it takes more than fifteen seconds although it is a short text, so it is begun before others.
 * - `slow`: it takes long and proves little that no other file proves. `npm test` leaves it out, `npm run test:slow` runs it, and so
 *   does CI while there is time.
 *
 * A file without such a line may run beside any other.
 */
export type Need = (typeof needs)[number];
const needs = ["alone", "quiet", "servers", "models", "long", "slow"] as const;

export function needsOf(file: string, read: (file: string) => string = readText): ReadonlySet<Need> {
  const [first = ""] = read(file).split("\n", 1);
  if (!first.startsWith("// Needs:")) return new Set();
  const [, words = ""] = /^\/\/ Needs: ([a-z]+(?:, [a-z]+)*)\. \S.*$/.exec(first) ?? [];
  const unknown = words.split(", ").filter((word) => !isNeed(word));
  if (unknown.length > 0) throw new Error(`${file}: its first line must be "// Needs: WORD, WORD. Why", with words of ${needs.join(", ")}`);
  return new Set(words.split(", ").filter(isNeed));
}

function isNeed(word: string): word is Need {
  return needs.includes(word as Need);
}

function readText(file: string): string {
  return readFileSync(file, "utf8");
}
