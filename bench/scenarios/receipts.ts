import type { Bench, Scenario } from "../bench.ts";
import { receiptCost, receiptsDrained } from "../receipts.ts";
import { startPostgres } from "../../test/support/servers/postgres.ts";
import { median } from "../statistics.ts";

/** What a receipt costs whoever serves its call, and how many of them get from the journal into the store. */
export const receipts: Scenario = async (bench) => {
  const { quick } = bench.options;
  const seconds = quick ? 1 : 5;
  const lines: (readonly (string | number)[])[] = [];
  for (const [perSecond, keys] of [
    [1_000, 20],
    [10_000, 20],
    [10_000, 20_000],
  ] as const) {
    console.error(`receipts, ${perSecond} a second of ${keys} keys for ${seconds} s`);
    const { cpuMicrosPerReceipt, drainMicrosPerReceipt, closeMicros, keptMillis } = await receiptCost(perSecond, seconds, keys);
    lines.push([
      `${perSecond} a second of ${keys} keys`,
      cpuMicrosPerReceipt,
      drainMicrosPerReceipt,
      closeMicros,
      keptMillis.median,
      keptMillis.p99,
    ]);
  }
  bench.show({
    title: "A receipt: CPU on its way into the journal and from there into SQLite, time of the call that hands it over, until it is kept",
    columns: ["receipts", "journal CPU, us", "drain CPU, us", "handed over, us", "kept p50, ms", "kept p99, ms"],
    lines,
  });
  bench.show({
    title: "Receipts drained from the journal into the store",
    columns: ["store", "receipts", "1/s, median", "1/s, least", "1/s, most"],
    lines: [await drained(bench, "SQLite", async () => "sqlite"), ...(await drainedIntoPostgres(bench))],
  });
  return [];
};

async function drainedIntoPostgres(bench: Bench): Promise<readonly (readonly (string | number)[])[]> {
  const server = await startPostgres();
  if ("skipped" in server) {
    bench.remark(`receipts: PostgreSQL is left out: ${server.skipped}`);
    return [];
  }
  try {
    return [await drained(bench, `PostgreSQL ${server.version}`, async () => server.freshDatabase())];
  } finally {
    await server.stop();
  }
}

async function drained(bench: Bench, name: string, store: () => Promise<string>): Promise<readonly (string | number)[]> {
  const { quick } = bench.options;
  const count = quick ? 20_000 : 200_000;
  const rates: number[] = [];
  for (let round = 1; round <= (quick ? 1 : 3); round += 1) {
    console.error(`receipts into ${name}, round ${round}`);
    rates.push(await receiptsDrained(await store(), count));
  }
  return [name, count, median(rates), Math.min(...rates), Math.max(...rates)];
}
