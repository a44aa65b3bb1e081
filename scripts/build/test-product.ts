import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundleInto, root } from "./bundle.ts";

/**
 * Bundles the gateway into a folder, compiled, and returns a program that starts it as `bin/sluice` starts that of the package. The suite
 * starts hundreds of gateways, and to compile seven hundred files takes half of the processor time of a start.
 */
export async function buildProduct(folder: string): Promise<string> {
  await bundleInto(folder, { isWhole: true });
  const program = join(folder, "sluice");
  const start = `[ "$1" != start ] || trap '' HUP\n${runtime()} --no-install "${folder}/main.js" "$@"`;
  writeFileSync(program, `#!/bin/sh\n${start}\n`);
  return program;
}

/** What bin/bun does, without looking for the runtime at each start: it is asked once what it runs, and which variables it sets. */
function runtime(): string {
  const show = "process.stdout.write(JSON.stringify([process.execPath, process.env]))";
  const { stdout } = Bun.spawnSync(["sh", join(root, "bin/bun"), "-e", show], { env: { PATH: process.env["PATH"] ?? "" } });
  const [bun, variables] = JSON.parse(stdout.toString()) as [string, Readonly<Record<string, string>>];
  const set = Object.entries(variables).filter(([name]) => !["PATH", "PWD", "OLDPWD", "SHLVL", "_"].includes(name));
  return [...set.map(([name, value]) => `: "\${${name}:=${value}}"\nexport ${name}`), `exec "${bun}"`].join("\n");
}
