// Needs: quiet, long. It mostly waits: a soak of some seconds.
import { expect, test } from "bun:test";
import { join } from "node:path";
import { platform } from "node:os";
import type { Finding, Soaked } from "../../bench/soak/findings.ts";

const root = join(import.meta.dir, "../..");

test.skipIf(platform() !== "linux")(
  "under mixed load, faults, reloads and key churn, the ledger equals the receipts and what was served, and nothing stays open",
  async () => {
    const command = ["sh", join(root, "bin/bun"), join(root, "bench/soak/run.ts"), "--minutes", "0.3", "--rate", "8", "--json"];
    const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
    const [out, progress, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
    const result = (out === "" ? { findings: [progress] } : JSON.parse(out)) as Soaked & { readonly findings: readonly Finding[] };
    const broken = result.findings.filter(({ holds }) => holds !== true && holds !== null);
    expect({ broken, problems: result.problems, unexplained: result.unexplained, ledger: result.ledger?.problems }).toEqual({
      broken: [],
      problems: [],
      unexplained: [],
      ledger: [],
    });
    expect(code).toBe(0);
    expect(result.calls).toBeGreaterThan(50);
    expect(result.reloads).toBeGreaterThan(0);
    expect(progress).toContain("calls,");
  },
  300_000,
);
