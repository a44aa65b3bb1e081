import { expect, test } from "bun:test";
import { startRetention } from "../../../src/app/durable.ts";
import { StorageError } from "../../../src/gateway/storage.ts";
import type { Database } from "../../../src/store/database.ts";

test("a store that cannot forget old receipts is logged, and is tried again", async () => {
  const refused = new StorageError("unavailable", "PostgreSQL failed with SQLSTATE 55P03. Check its log.");
  const database = { engine: "postgres", all: () => Promise.reject(refused) } as unknown as Database;
  const logged: unknown[] = [];
  const log = { info: () => undefined, warn: (event: string, fields: object = {}) => void logged.push([event, fields]) };
  let armed = Promise.withResolvers<() => void>();
  const after = (_: number, then: () => void): (() => void) => {
    armed.resolve(then);
    return () => undefined;
  };
  const receipts = { sync: false, keepMs: 86_400_000, keepHoursMs: 86_400_000, keptShare: 1 };
  const stop = startRetention(database, { receipts }, log, after, () => 1e12);
  for (let round = 1; round <= 2; round += 1) {
    const run = await armed.promise;
    armed = Promise.withResolvers();
    run();
    await armed.promise;
    expect(logged).toEqual(Array.from({ length: round }, () => ["retention_trouble", { detail: refused.message }]));
  }
  stop();
});
