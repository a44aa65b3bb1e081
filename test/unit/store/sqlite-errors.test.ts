import { expect, test } from "bun:test";
import { sqliteError } from "../../../src/store/sqlite/sqlite-errors.ts";

/** The runtime alone makes such errors, and tells them by their name. */
function failed(code: string): Error {
  return Object.assign(new Error("said by SQLite"), { name: "SQLiteError", code });
}

test.each(["SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED", "SQLITE_PROTOCOL"])(
  "a file that others are using is no damaged one: %s passes, and is tried again",
  (code) => {
    expect(sqliteError(failed(code), "sluice.db")).toMatchObject({
      kind: "unavailable",
      isBusy: true,
      message: expect.stringContaining(code),
    });
  },
);
