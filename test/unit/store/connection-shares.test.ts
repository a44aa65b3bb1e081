import { describe, expect, test } from "bun:test";
import { connectionShares } from "../../../src/store/postgres/connection-shares.ts";

describe("the connections of a process to PostgreSQL", () => {
  test.each([
    [4, { calls: 2, reports: 1, receipts: 1 }],
    [12, { calls: 8, reports: 3, receipts: 1 }],
    [100, { calls: 74, reports: 25, receipts: 1 }],
  ])("are %d in all: one for receipts, a quarter for queries of the admin API, the rest for calls", (connections, shares) => {
    expect(connectionShares(connections)).toEqual(shares);
    expect(shares.calls + shares.reports + shares.receipts).toBe(connections);
  });
});
