import { expect, test } from "bun:test";
import { Webhooks } from "../../../src/app/telemetry/webhooks.ts";
import type { Storage } from "../../../src/gateway/storage.ts";
import type { UsageQuery, UsageRow } from "../../../src/usage/usage-row.ts";
import { otlpPorts } from "../../support/telemetry.ts";

test("the cost of the hour that has ended is compared with those before it, as the store sums them up", async () => {
  const ports = otlpPorts(undefined, { wallMs: () => Date.parse("2026-01-31T14:05:00Z") });
  const asked: UsageQuery[] = [];
  const usage = (query: UsageQuery): Promise<readonly UsageRow[]> => {
    asked.push(query);
    const costs = { "2026-01-31T10:00Z": 1, "2026-01-31T11:00Z": 1, "2026-01-31T12:00Z": 1, "2026-01-31T13:00Z": 9 };
    return Promise.resolve(
      Object.entries(costs).map(([hour, dollars]) => ({ group: { hour }, nanos: dollars * 1e9 }) as unknown as UsageRow),
    );
  };
  const webhooks = new Webhooks({
    ...ports,
    webhooks: [{ url: "https://receiver.test/hook", secret: "0123456789abcdef", types: ["cost.jump"] }],
    onLoss: () => {},
    channels: () => [],
    reports: { receipts: { usage } } as unknown as Storage,
  });
  await webhooks.announce([], []);
  await webhooks.announce([], []);
  await webhooks.stop();
  expect(asked[0]).toMatchObject({ sinceMs: Date.parse("2026-01-30T13:00Z"), untilMs: Date.parse("2026-01-31T14:00Z") });
  expect(ports.requests.map(({ body }) => JSON.parse(body) as unknown)).toEqual([
    {
      type: "cost.jump",
      timestamp: "2026-01-31T14:05:00.000Z",
      data: { hour: "2026-01-31T13:00:00.000Z", cost_usd: 9, usual_usd: 1 },
    },
  ]);
});
