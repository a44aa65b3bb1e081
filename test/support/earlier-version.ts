import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { migrations } from "../../src/store/migrations/index.ts";
import type { Skipped } from "./servers/obtain.ts";

const root = resolve(import.meta.dir, "../..");

/** The gateway as it was just before the newest migration, from the history of this checkout. */
export interface EarlierVersion extends Disposable {
  /** In place of the product (`GatewayOptions.command`). */
  readonly command: readonly string[];
  /** The newest migration that it knows. */
  readonly schema: number;
}

/**
 * Takes it from the parent of the commit that brought the store of the newest schema (test/fixtures/stores), which comes with the migration.
 * It runs from source with the packages of this checkout. An archive or a shallow clone has no such commit.
 */
export function earlierVersion(): EarlierVersion | Skipped {
  const fixture = `test/fixtures/stores/${String(migrations.length).padStart(4, "0")}`;
  const added = git("log", "--diff-filter=A", "--format=%H", "-1", "--", fixture);
  const commit = added === "" || added === null ? null : git("rev-parse", "--verify", "--quiet", `${added}^`);
  if (commit === null) return { skipped: `the history of this checkout does not reach back to schema ${migrations.length - 1}` };
  const folder = mkdtempSync(join(tmpdir(), "sluice-earlier-"));
  const source = join(folder, "source");
  mkdirSync(source);
  const unpack = `git archive ${commit} bin src packages schema package.json | tar -x -C "$0"`;
  const { exitCode, stderr } = Bun.spawnSync(["sh", "-c", unpack, source], { cwd: root });
  if (exitCode !== 0 || !existsSync(join(source, "bin/sluice"))) throw new Error(`git archive ${commit} failed: ${stderr.toString()}`);
  symlinkSync(join(root, "node_modules"), join(source, "node_modules"));
  return {
    command: ["sh", join(source, "bin/sluice")],
    schema: migrations.length - 1,
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** What git prints; null where it fails or is not there. */
function git(...args: readonly string[]): string | null {
  try {
    const { exitCode, stdout } = Bun.spawnSync(["git", ...args], { cwd: root, stderr: "ignore" });
    return exitCode === 0 ? stdout.toString().trim() : null;
  } catch {
    return null;
  }
}
