import { homedir, arch, availableParallelism, cpus, platform, release, tmpdir, totalmem } from "node:os";
import { root } from "../source-tree.ts";
import type { Surroundings } from "./proof.ts";

/** The page that is written itself is no change to what was proven. */
const proofPath = "docs/proof.md";

type OfRun = Pick<Surroundings, "seconds" | "remarks" | "versions">;

export function surroundings({ seconds, remarks, versions }: OfRun): Surroundings {
  const changes = git("status", "--porcelain").split("\n");
  return {
    date: new Date(),
    commit: git("rev-parse", "--short=12", "HEAD").trim(),
    hasChanges: changes.some((line) => line !== "" && !line.endsWith(` ${proofPath}`)),
    processors: `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? "unknown"}`,
    memory: `${(totalmem() / 1e9).toFixed(1)} GB`,
    // The release of a kernel, without the words of whoever built it.
    system: `${platform()} ${release().replace(/-.*$/, "")} ${arch()}`,
    versions: { Bun: Bun.version, Node: said(["node", "--version"]).trim().replace(/^v/, "") || "absent", ...versions },
    seconds,
    remarks,
  };
}

/** A page that is published tells nothing of where things lie on this machine. */
export function withoutPaths(text: string): string {
  return [root, tmpdir(), homedir()].reduce((so, path) => (path.length > 1 ? so.replaceAll(path, "…") : so), text);
}

function git(...words: readonly string[]): string {
  return said(["git", "-C", root, ...words]);
}

function said(command: readonly string[]): string {
  try {
    return Bun.spawnSync([...command], { stderr: "ignore" }).stdout.toString();
  } catch {
    return ""; // There is no such program.
  }
}
