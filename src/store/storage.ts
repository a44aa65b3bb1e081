import type { Storage } from "../gateway/storage.ts";
import { AccountTable } from "./tables/account-table.ts";
import { AuditTable } from "./tables/audit-table.ts";
import { BudgetTable } from "./tables/budget-table.ts";
import { readRevision } from "./tables/change.ts";
import { ChannelTable } from "./tables/channel-table.ts";
import type { Database } from "./database.ts";
import { KeyTable } from "./tables/key-table.ts";
import { PriceTable } from "./tables/price-table.ts";
import { makeReceiptStorage } from "./receipts/receipt-table.ts";
import type { TableNeeds } from "./tables/table-needs.ts";

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
