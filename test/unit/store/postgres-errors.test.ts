import { SQL } from "bun";
import { expect, test } from "bun:test";
import { postgresError } from "../../../src/store/postgres/postgres-errors.ts";

const failed = (errno: string, message: string) =>
  postgresError(new SQL.PostgresError(message, { errno, code: "ERR_POSTGRES_SERVER_ERROR" }));

test("a user of PostgreSQL without rights is told to get them, and receipts wait meanwhile", () => {
  const error = failed("42501", "permission denied for schema public");
  expect(error.kind).toBe("unavailable");
  expect(error.message).toContain("permission denied for schema public (42501). Make it the owner");
  expect(error.message).not.toMatch(/version|backup/);
  // A table that is missing is another matter.
  expect(failed("42P01", 'relation "keys" does not exist')).toMatchObject({
    kind: "damaged",
    message: expect.stringContaining("does not match this version"),
  });
});

test("a parameter in the address that PostgreSQL does not know is named, and does not look like a store of another version", () => {
  const error = failed("42704", 'unrecognized configuration parameter "pgbouncer"');
  expect(error.kind).toBe("unavailable");
  expect(error.message).toContain('unrecognized configuration parameter "pgbouncer" (42704). Remove it there.');
  expect(error.message).not.toMatch(/version|backup/);
});

test("an internal error, which poolers report of a server that is away, may pass, and damaged data do not", () => {
  expect(failed("XX000", "Control plane request failed")).toMatchObject({ kind: "unavailable", message: expect.stringContaining("XX000") });
  for (const state of ["XX001", "XX002"]) expect(failed(state, "invalid page in block 3").kind).toBe("damaged");
});
