import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";
import { foundOrSkipped } from "./test-tools.ts";

/** Those that bin/install-deploy-tools brings. */
const installed = ["check-jsonschema", "hadolint", "kubernetes-validate"] as const;
type Installed = (typeof installed)[number];
/** Those that it builds with Go, and one that comes with systemd. */
type Other = "helm" | "kubeconform" | "promtool" | "systemd-analyze";

/** A program that checks deployment files: of this machine, or installed by bin/install-deploy-tools; null if there is none. */
export function toolNamed(name: Installed | Other): string | null {
  const places = ["deploy", "deploy-go"].map((home) => join(root, ".venv", home, "bin", name));
  const found = places.find((path) => existsSync(path)) ?? Bun.which(name);
  return installed.some((one) => one === name) ? foundOrSkipped("deploy", name, found) : found;
}

/** Runs a tool and returns what it said with its exit code, so that a failed expectation shows it. */
export function checked(command: readonly string[], input = ""): { readonly code: number; readonly said: string } {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command], {
    cwd: root,
    stdin: Buffer.from(input),
  });
  return { code: exitCode, said: stdout.toString() + stderr.toString() };
}
