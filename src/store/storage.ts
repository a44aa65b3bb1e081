import type { Storage } from "../gateway/storage.ts";
import { AccountTable } from "./account-table.ts";
import { AuditTable } from "./audit-table.ts";
import { BudgetTable } from "./budget-table.ts";
import { readRevision } from "./change.ts";
import { ChannelTable } from "./channel-table.ts";
import type { Database } from "./database.ts";
import { KeyTable } from "./key-table.ts";
import { PriceTable } from "./price-table.ts";
import { makeReceiptStorage } from "./receipt-table.ts";
import type { TableNeeds } from "./table-needs.ts";

/** The durable half over one database, which it closes when it is closed. */
export function makeStorage(database: Database, needs: TableNeeds): Storage {
  return {
    keys: new KeyTable(database, needs),
    channels: new ChannelTable(database, needs),
    prices: new PriceTable(database, needs),
    receipts: makeReceiptStorage(database),
    budgets: new BudgetTable(database, needs),
    audit: new AuditTable(database, needs),
    accounts: new AccountTable(database, needs),
    revision: () => readRevision(database),
    close: () => database.close(),
  };
}
