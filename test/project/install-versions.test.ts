// Needs: slow. It unpacks the last commit several times, to prove what only CI asks of a script.
import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { root } from "../../scripts/source-tree.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the script with an npm in the PATH that makes these programs, all of which do the same: `program`, in sh, as node. */
function triedWith(program: string, pairs: number): { readonly code: number; readonly out: string } {
  const bin = join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(folder, "node"), `#!/bin/sh\ncd "${folder}"\n${program}\n`);
  chmodSync(join(folder, "node"), 0o755);
  const npm = `for node in 20 22 24; do mkdir -p node_modules/node-$node/bin; cp "${folder}/node" node_modules/node-$node/bin/node; done`;
  writeFileSync(join(bin, "npm"), `#!/bin/sh\n${npm}\n`);
  chmodSync(join(bin, "npm"), 0o755);
  const env = { ...process.env, PATH: [bin, process.env["PATH"]].join(delimiter) };
  const { exitCode, stdout } = Bun.spawnSync([process.execPath, join(root, "scripts/install-versions.ts"), String(pairs)], { env });
  return { code: exitCode, out: stdout.toString() };
}

test("a pair of Node and npm that warns is told of, also if the registry is lost afterwards", () => {
  const { code, out } = triedWith("[ -e once ] && echo ENOTFOUND && exit 1; touch once; echo npm warn deprecated thing", 2);
  expect([code, out]).toEqual([1, "Node 20 with npm 10: npm warn deprecated thing\nthe npm registry cannot be reached\n"]);
}, 60_000);

test("as many pairs of Node and npm are tried as are asked for", () => {
  const { code, out } = triedWith("echo npm warn deprecated thing", 2);
  expect([code, out]).toEqual([1, expect.stringContaining("2 of 6 pairs of Node and npm tried; 2 failed or warned")]);
}, 60_000);
