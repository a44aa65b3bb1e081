// Needs: quiet, long, servers. It mostly waits: a soak of two minutes, and beside it one of half a minute.
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { platform } from "node:os";
import type { Finding, Soaked } from "../../bench/soak/findings.ts";
import { keysMin } from "../../bench/soak/key-churn.ts";
import { kinds } from "../../bench/soak/traffic.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";

const root = join(import.meta.dir, "../..");
const isLinux = platform() === "linux";
/** A soak waits at its end for connections to be closed, and a busy machine is slow to start it. */
const waitsMs = 300_000;

const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();
const missing = remark(postgres, redis);

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
});

describe("under mixed load, faults, reloads and key churn, the ledger is exact, and no file and no thread stays", () => {
  test.skipIf(!isLinux).concurrent(
    "on SQLite, for two minutes",
    async () => {
      const soaked = await soak("--minutes", "2");
      expect(soaked.calls).toBeGreaterThan(1_000);
      expect(soaked.reloads).toBeGreaterThan(5);
      expect(soaked.keys.revoked).toBeGreaterThan(0);
      expectMixed(soaked);
    },
    waitsMs,
  );

  test.skipIf(!isLinux || missing !== "").concurrent(
    `on PostgreSQL and Redis, for half a minute${missing}`,
    async () => {
      const soaked = await soak("--minutes", "0.5", "--store", await present(postgres).freshDatabase(), "--state", present(redis).url);
      expect(soaked.calls).toBeGreaterThan(200);
      expect(soaked.reloads).toBeGreaterThan(0);
      expectMixed(soaked);
    },
    waitsMs,
  );
});

/** Every kind of call was made under load, and not only once before it, and keys came and changed. */
function expectMixed({ byKind, keys }: Soaked): void {
  expect(kinds.filter((kind) => (byKind[kind] ?? 0) <= 1)).toEqual([]);
  expect(keys.created).toBeGreaterThan(keysMin);
  expect(keys.rotated).toBeGreaterThan(0);
}

async function soak(...options: readonly string[]): Promise<Soaked> {
  const command = ["sh", join(root, "bin/bun"), join(root, "bench/soak/run.ts"), "--rate", "20", "--json", ...options];
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
  expect(progress).toContain("calls,");
  return result;
}
