// Needs: alone. It makes promises about real time.
import { expect, setDefaultTimeout, test } from "bun:test";
import { chat, RawConnection } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { clientKey, setUp } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

test("F72: two thousand clients within a tenth of a second of a start are served, or told when to come back, and then all is well", async () => {
  await using rig = await setUp({ a: {} });
  const beganMs = performance.now();
  const replies = await Promise.all(
    Array.from({ length: 2_000 }, async (_, at) => {
      await Bun.sleep(at / 20);
      return chat(rig.gateway, { model: "herd" }, { key: clientKey, stream: at % 2 === 0, timeoutMs: 30_000 });
    }),
  );
  const refused = replies.filter(({ status }) => status !== 200);
  const codes = new Set(["overloaded", "channel_saturated"]);
  expect(refused.filter(({ status, error }) => status !== 503 || !codes.has(error?.code ?? ""))).toEqual([]);
  expect(replies.length - refused.length).toBeGreaterThan(500);
  const waits = refused.map(({ response }) => Number(response.header("retry-after-ms")));
  for (const waitMs of waits) expect(waitMs).toBeWithin(1_000, 60_001);
  // All of them coming back at the same moment would be the next herd.
  if (waits.length > 20) expect(new Set(waits).size).toBeGreaterThan(10);

  const over = performance.now();
  await eventually("it is calm again", async () => (await chat(rig.gateway, { model: "herd" }, { key: clientKey })).status === 200);
  expect(performance.now() - over).toBeLessThan(slowed(5_000));
  expect(over - beganMs).toBeLessThan(slowed(20_000));
  await rig.check({ calls: replies.length + 1, withinMs: 10_000 });
});

test("as many as a channel has places for, and a hundred more, are all served when they come at once", async () => {
  await using rig = await setUp({ a: { concurrency: 20 } });
  const replies = await Promise.all(Array.from({ length: 120 }, () => rig.chat({ model: "herd", x_first_ms: 20 })));
  expect(replies.filter(({ status }) => status !== 200).map(({ error }) => error?.code)).toEqual([]);
  expect(rig.upstream.a.ledger.chats.length).toBe(120);
  await rig.check();
});

test("S19: a thousand connections that send their heads byte by byte cost others neither an answer nor their time", async () => {
  await using rig = await setUp({ a: {} });
  const ask = async (): Promise<number> => {
    const beganMs = performance.now();
    expect((await rig.chat({ model: "beside" })).status).toBe(200);
    return performance.now() - beganMs;
  };
  const slow = await Promise.all(Array.from({ length: 1_000 }, () => RawConnection.open(rig.gateway.url)));
  const drip = setInterval(() => {
    for (const connection of slow) void connection.send(Buffer.from("P"));
  }, 500);
  const tookMs: number[] = [];
  const untilMs = performance.now() + 2_000;
  while (performance.now() < untilMs) tookMs.push(await ask());
  clearInterval(drip);
  expect(tookMs.length).toBeGreaterThan(20);
  expect(tookMs.toSorted((one, other) => one - other)[tookMs.length >> 1]).toBeLessThan(slowed(50));
  for (const connection of slow) connection.close();
  await rig.check();
});
