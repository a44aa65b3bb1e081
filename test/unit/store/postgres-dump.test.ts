import { expect, test } from "bun:test";
import fc from "fast-check";
import { keptBackups } from "../../../src/app/kept-backups.ts";
import { postgresDump } from "../../../src/store/backup/postgres-dump.ts";

const shown: readonly (readonly [store: string, address: string])[] = [
  ["postgres://sluice:hidden@db:5432/sluice", "postgres://sluice@db:5432/sluice"],
  ["postgresql://db/sluice", "postgresql://db/sluice"],
  ["postgres://me:a@b:c@[::1]:5432/x%20y", "postgres://me@[::1]:5432/x%20y"],
  // Neither a parameter that libpq does not know nor one that may be secret.
  ["postgres://me:hidden@pooler:6432/s?pooling=transaction&sslmode=require&password=hidden", "postgres://me@pooler:6432/s?sslmode=require"],
  ["postgres://me:hidden@a:1,b:2/s", "postgres://me@a:1,b:2/s?target_session_attrs=read-write"],
  ["postgres://me:hid/den@db/s", "postgres://USER@HOST:5432/DATABASE"],
  ["postgres://me:12?34@db/s", "postgres://USER@HOST:5432/DATABASE"],
  ["postgres://$(rm):x@db/s", "postgres://USER@HOST:5432/DATABASE"],
  ["host=db password=hidden", "postgres://USER@HOST:5432/DATABASE"],
];

test.each(shown)("the commands for %s have its address without the password", (store, address) => {
  const { backup, restore } = postgresDump(store);
  expect(backup).toBe(`pg_dump --format=custom --file=sluice.dump '${address}'`);
  expect(restore).toStartWith("pg_restore --clean --if-exists --file=sluice.sql sluice.dump && psql --quiet --single-transaction ");
  expect(restore).toEndWith(` --file=sluice.sql '${address}'`);
});

test("no password is in the commands, whatever it is made of, and nothing that a shell would run", () => {
  const property = (secret: string, place: (secret: string) => string): void => {
    const { backup, restore } = postgresDump(place(`s3cret${secret}`));
    expect(`${backup} ${restore}`).not.toContain("s3cret");
    expect(backup.replace(/'[^']*'$/, "")).toBe("pg_dump --format=custom --file=sluice.dump ");
  };
  const places = [
    (secret: string) => `postgres://me:${secret}@db/s`,
    (secret: string) => `postgres://me:x@db/s?password=${secret}`,
    (secret: string) => `postgres://db/s?user=me&sslpassword=${secret}`,
  ];
  fc.assert(fc.property(fc.string(), fc.constantFrom(...places), property));
});

test("a gateway on PostgreSQL tells how it is backed up: the commands, and what else has to be kept", () => {
  const quiet = { info: () => undefined, error: () => undefined };
  const { impossible, instead } = keptBackups({ store: "postgres://me:hidden@db/s?pooling=transaction", dataDir: "/data" }, null, quiet);
  expect(impossible).toContain("pg_dump --format=custom --file=sluice.dump 'postgres://me@db/s'");
  const notes = instead?.notes.join("\n") ?? "";
  for (const words of ["PGPASSWORD", "pooler", "/data/master-key", "Redis needs no backup", "journal"]) expect(notes).toContain(words);
  expect(JSON.stringify([impossible, instead])).not.toContain("hidden");
  const direct = keptBackups({ store: "postgres://me:hidden@db/s", dataDir: "/data" }, "given", quiet).instead?.notes.join("\n") ?? "";
  expect([direct.includes("pooler"), direct.includes("SLUICE_MASTER_KEY")]).toEqual([false, true]);
  expect(keptBackups({ store: "sqlite", dataDir: "/data" }, null, quiet).instead).toBeNull();
});
