import type { Storage } from "../gateway/storage.ts";
import { AccountTable } from "./tables/account-table.ts";
import { AuditTable } from "./tables/audit-table.ts";
import { BlockedSubjectTable } from "./tables/blocked-subject-table.ts";
import { BudgetTable } from "./tables/budget-table.ts";
import { readRevision, type TableContext } from "./tables/change.ts";
import { ChannelTable } from "./tables/channel-table.ts";
import type { Database } from "./database.ts";
import { GroupTable } from "./tables/group-table.ts";
import { KeyTable } from "./tables/key-table.ts";
import { PriceTable } from "./tables/price-table.ts";
import { makeReceiptStorage } from "./receipts/receipt-table.ts";
import { sql } from "./sql.ts";
import { joinedTransaction } from "./transaction-scope.ts";

/** The tables of one database behind the `Storage` interface. Closing the storage closes the database. */
export function makeStorage(database: Database, context: TableContext): Storage {
  return {
    keys: new KeyTable(database, context),
    groups: new GroupTable(database, context),
    channels: new ChannelTable(database, context),
    prices: new PriceTable(database, context),
    receipts: makeReceiptStorage(database),
    budgets: new BudgetTable(database, context),
    audit: new AuditTable(database, context),
    accounts: new AccountTable(database, context),
    blockedSubjects: new BlockedSubjectTable(database, context),
    revision: () => readRevision(database),
    together: (work) =>
      database.transaction(async (transaction) => {
        // Locks the row that every change locks first, so that what `work` reads stays true.
        await transaction.run(sql`update revision set value = value where id = 1`);
        return work(makeStorage(joinedTransaction(transaction), context));
      }),
    close: () => database.close(),
  };
}

/** UUIDv7: ids that sort by the time of their creation. */
export function newId(): string {
  return Bun.randomUUIDv7();
}

/**
 * The same by another clock, such as that of the store, which all replicas agree on. They rise although ids of other times are made in between,
 * and when the clock is corrected by a little.
 */
export function idsBy(wallMs: () => number): () => string {
  let lastMs = 0;
  let last = "";
  return () => {
    const nowMs = wallMs();
    let atMs = nowMs < lastMs && lastMs - nowMs < correctionMsMax ? lastMs : nowMs;
    let id = Bun.randomUUIDv7("hex", atMs);
    if (atMs === lastMs && id <= last) id = Bun.randomUUIDv7("hex", (atMs += 1));
    lastMs = atMs;
    last = id;
    return id;
  };
}

const correctionMsMax = 60_000;
