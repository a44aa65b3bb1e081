// Needs: servers. It asks the sums of each store.
import { expect, test } from "bun:test";
import { Webhooks } from "../../src/app/telemetry/webhooks.ts";
import { addReceipts } from "../../src/store/receipts/receipt-table.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import { engines } from "../support/databases.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { storageWorld } from "../support/storage-world.ts";
import { otlpPorts } from "../support/telemetry.ts";

const dollar = 1_000_000_000;
const minute = 60_000;
const hour = 60 * minute;
const now = Date.parse("2026-01-31T14:05:00Z");
const thisHour = Date.parse("2026-01-31T14:00:00Z");

test("the hour that has ended is compared with the day before it, as a real store sums up what calls cost", async () => {
  await using world = await storageWorld(
    engines.find(({ name }) => name === "sqlite")!,
    now,
  );
  const paid = async (atMs: number, dollars: number): Promise<void> => {
    const receipt = sampleReceipt({ startedMs: atMs, tookMs: 1_000, billedNanos: dollars * dollar });
    await world.database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, [receipt])));
  };
  const announced = async (): Promise<readonly unknown[]> => {
    const ports = otlpPorts(undefined, { wallMs: () => world.clock.nowMs });
    const webhooks = new Webhooks({
      ...ports,
      webhooks: [{ url: "https://receiver.test/hook", secret: "0123456789abcdef", types: ["cost.jump"] }],
      onLoss: () => {},
      channels: () => [],
      reports: world.storage,
    });
    await webhooks.announce([], []);
    await webhooks.stop();
    return ports.requests.map(({ body }) => (JSON.parse(body) as { readonly data: unknown }).data);
  };
  // What the present hour costs, and what was paid more than a day before, is not compared.
  await paid(thisHour + minute, 500);
  await paid(thisHour - 26 * hour + minute, 500);
  for (const hours of [2, 3, 25]) await paid(thisHour - hours * hour + minute, 2);
  await paid(thisHour - minute, 4);
  expect(await announced()).toEqual([]);
  await paid(thisHour - 30 * minute, 3);
  expect(await announced()).toEqual([{ hour: "2026-01-31T13:00:00.000Z", cost_usd: 7, usual_usd: 2 }]);
  // An hour later another one has ended.
  world.clock.nowMs += hour;
  expect(await announced()).toEqual([{ hour: "2026-01-31T14:00:00.000Z", cost_usd: 500, usual_usd: expect.closeTo(11 / 3, 9) }]);
});
