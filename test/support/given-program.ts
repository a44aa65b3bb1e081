import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GivenPeer } from "../../bench/given-peers.ts";
import { root } from "../../scripts/source-tree.ts";
import type { PeerBehaviour } from "./peer-stand-in.ts";

/** The path of a program that stands in for another gateway, as the bench is given one. */
export function givenProgram(folder: string, kind: GivenPeer, behaviour: PeerBehaviour): string {
  const program = join(folder, `${kind}-${behaviour}`);
  const [bun, script] = [join(root, "bin/bun"), join(root, "test/support/peer-stand-in.ts")];
  writeFileSync(program, `#!/bin/sh\nexec sh "${bun}" "${script}" ${kind} ${behaviour} "$@"\n`);
  chmodSync(program, 0o755);
  return program;
}
