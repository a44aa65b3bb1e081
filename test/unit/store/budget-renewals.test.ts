import { expect, test } from "bun:test";
import type { Database } from "../../../src/store/database.ts";
import { textOf, type Sql } from "../../../src/store/sql.ts";
import { BudgetTable } from "../../../src/store/tables/budget-table.ts";

test("renewing the holds of many budgets reads all holds of the process once, however many there are", async () => {
  const sent: string[] = [];
  let transactions = 0;
  const database: Database = {
    engine: "postgres",
    all: async () => [],
    run: async (query: Sql) => {
      sent.push(textOf(query, "$").trim());
      return 0;
    },
    transaction: (work) => {
      transactions += 1;
      return work(database);
    },
    close: async () => {},
  };
  const budgets = new BudgetTable(database, { wallMs: () => 0 });
  const renewals = Array.from({ length: 2_000 }, (_, at) => ({ budget: `key-${at}`, nanos: at }));
  await budgets.renew("process", renewals, 600_000);
  expect(sent.filter((text) => text.startsWith("with kept"))).toHaveLength(8);
  expect(sent.filter((text) => text.startsWith("delete"))).toHaveLength(1);
  // In the last of them: each is one more that waits for the disk, and that keeps other writers of a SQLite file waiting.
  expect(transactions).toBe(8);
  await budgets.renew("process", [], 600_000);
  expect(transactions).toBe(8);
});
