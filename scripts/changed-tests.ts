import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

/**
 * Names the test files that a change touches, one a line: `npm run test:changed` runs them. A change is what differs from the
 * branch point with the main branch (or from `--since REF`), committed or not.
 *
 * A test is touched by its own change and by a change of anything that it imports. Tests that start the product as a process import
 * none of it; of those, the ones in a folder named like a changed folder of src are taken (`src/store/...`: `test/store/`). With
 * `--unit` only files of `test/unit/` are named.
 */
const root = resolve(import.meta.dir, "..");
const argumentsGiven = process.argv.slice(2);
const sinceAt = argumentsGiven.indexOf("--since");
const since = sinceAt < 0 ? branchPoint() : (argumentsGiven[sinceAt + 1] ?? "HEAD");
const changed = new Set([...git("diff", "--name-only", since), ...git("ls-files", "--others", "--exclude-standard")]);
const folders = new Set([...changed].flatMap((path) => /^src\/([^/]+)\//.exec(path)?.slice(1) ?? []));

const unitOnly = argumentsGiven.includes("--unit");

for (const file of testFiles()) if ((!unitOnly || file.startsWith("test/unit/")) && isTouched(file)) console.log(file);

function isTouched(file: string): boolean {
  const used = importedBy(file);
  if ([...used].some((path) => changed.has(path))) return true;
  const [, folder = ""] = file.split("/");
  return folders.has(folder);
}

/** The file and everything of this repository that it imports, however far away. */
function importedBy(file: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(file) || !existsSync(join(root, file))) return seen;
  seen.add(file);
  const text = readFileSync(join(root, file), "utf8");
  for (const [, name] of text.matchAll(/(?:from|import) "(\.[^"]+)"/g)) importedBy(join(dirname(file), name!), seen);
  return seen;
}

function testFiles(): readonly string[] {
  const names = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" });
  return names
    .filter((name) => name.endsWith(".test.ts") && !name.includes("node_modules"))
    .toSorted()
    .map((name) => join("test", name));
}

function branchPoint(): string {
  for (const branch of ["origin/main", "main"]) {
    const [point] = git("merge-base", "HEAD", branch);
    if (point !== undefined) return point;
  }
  return "HEAD";
}

function git(...command: readonly string[]): readonly string[] {
  const { stdout, exitCode } = Bun.spawnSync(["git", ...command], { cwd: root, stderr: "ignore" });
  if (exitCode !== 0) return [];
  return stdout
    .toString()
    .split("\n")
    .filter((line) => line !== "");
}
