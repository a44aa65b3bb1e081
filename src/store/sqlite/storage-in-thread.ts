import type { Storage } from "../../gateway/storage.ts";
import type { DistributedCounts } from "../../limits/distributed-counts.ts";
import { makeStorage } from "../storage.ts";
import { BudgetTable } from "../tables/budget-table.ts";
import type { TableContext } from "../tables/change.ts";
import { KeyTable } from "../tables/key-table.ts";
import type { ThreadDatabase } from "./thread-database.ts";
import type { ThreadTables } from "./thread-message.ts";

/** The storage of a SQLite file in a thread, where each change that calls wait for is one message. */
export function storageInThread(database: ThreadDatabase, context: TableContext): Storage {
  const { newId } = context;
  const keys: ThreadTables["keys"] = {
    create: database.method("keys", "create", newId),
    change: database.method("keys", "change", newId),
    rotate: database.method("keys", "rotate", newId),
    revoke: database.method("keys", "revoke", newId),
    used: database.method("keys", "used"),
  };
  const budgets: ThreadTables["budgets"] = { hold: database.method("budgets", "hold") };
  return {
    ...makeStorage(database, context),
    keys: Object.assign(new KeyTable(database, context), keys),
    budgets: Object.assign(new BudgetTable(database, context), budgets),
  };
}

/** Shared counts in a SQLite file. The database is closed by its owner. */
export function countsInThread(database: ThreadDatabase): DistributedCounts {
  return {
    releasesInPassing: false,
    take: database.method("counts", "take"),
    correct: database.method("counts", "correct"),
    renew: database.method("counts", "renew"),
    release: database.method("counts", "release"),
    heartbeat: database.method("counts", "heartbeat"),
    leave: database.method("counts", "leave"),
    forget: database.method("counts", "forget"),
    close: () => {},
  };
}
