import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";

/** A program that checks deployment files: of this machine, or installed by bin/install-deploy-tools; null if there is none. */
export function toolNamed(name: string): string | null {
  const installed = ["deploy", "deploy-go"].map((home) => join(root, ".venv", home, "bin", name));
  return installed.find((path) => existsSync(path)) ?? Bun.which(name);
}

/** Runs a tool and returns what it said with its exit code, so that a failed expectation shows it. */
export function checked(command: readonly string[], input = ""): { readonly code: number; readonly said: string } {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command], {
    cwd: root,
    stdin: Buffer.from(input),
  });
  return { code: exitCode, said: stdout.toString() + stderr.toString() };
}
