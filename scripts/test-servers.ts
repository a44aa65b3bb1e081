import { obtainPgBouncer, obtainPostgres, obtainRedis, type Binaries, type Skipped } from "../test/support/servers/obtain.ts";

/**
 * Makes sure that the tests have a real PostgreSQL and a real Redis: those of the machine, else fetched into
 * test/servers. Says in plain words what it found. SLUICE_TEST_SERVERS=required makes a missing one an error; root may
 * then also install Redis into the machine, where unpacking it was not enough.
 */

const required = process.env["SLUICE_TEST_SERVERS"] === "required";
const withinMs = 120_000;

const [postgres, redis, pgBouncer] = await Promise.all([
  obtainPostgres(withinMs),
  obtainRedis(withinMs, required),
  obtainPgBouncer(withinMs / 4),
]);
tell("PostgreSQL", postgres);
// A server that REDIS_URL names is as good, as long as nobody wants to stop it.
const named = process.env["REDIS_URL"] ?? "";
if ("skipped" in redis && named !== "")
  console.log("Redis for the tests: the one that REDIS_URL names; tests that stop or kill it are skipped");
else tell("Redis", redis);
tell("PgBouncer", pgBouncer);
if (required && ("skipped" in postgres || "skipped" in redis)) process.exit(1);

function tell(name: string, found: Binaries | Skipped): void {
  if ("skipped" in found) console.log(`${name} for the tests: none, and the tests that need it are skipped: ${found.skipped}`);
  else console.log(`${name} for the tests: ${found.version} (${found.path})`);
}
