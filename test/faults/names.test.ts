// Needs: quiet. It mostly waits for name servers that say nothing.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat, type ChatReply } from "../support/client.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { startNameServer } from "../support/name-server.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const names = await startNameServer();
const missing = "skipped" in names ? ` (skipped: ${names.skipped})` : "";
const key = "sk-client-canary-0123456789abcdef";
const connectMs = 1_000;
/** More names that nobody answers for than there could be threads to wait for them. */
const crowd = Array.from({ length: 40 }, (_, at) => `silent-${at}`);

describe.skipIf("skipped" in names)(`F04: an upstream whose name${missing}`, () => {
  let upstream: Chaos;
  let gateway: Gateway;

  beforeAll(async () => {
    if ("skipped" in names) return;
    upstream = await startChaos({ name: "a" });
    const at = (host: string): string => `http://${host}.example:${upstream.port}/v1`;
    const timeouts = { connect: `${connectMs}ms` };
    gateway = await startGateway({
      command: names.command,
      config: {
        keys: [{ name: "tester", key }],
        channels: [
          { name: "good", base_url: at("good-one"), models: ["good"] },
          { name: "failing", base_url: at("failing-one"), models: ["failing", "failing-alone"], tier: 1 },
          { name: "silent", base_url: at("silent-one"), models: ["silent", "silent-alone"], tier: 1, timeouts },
          ...crowd.map((model) => ({ name: model, base_url: at(model), models: [model], timeouts })),
          { name: "beside", base_url: upstream.url, models: ["failing", "silent"], tier: 2 },
        ],
      },
    });
  });

  afterAll(async () => {
    await gateway?.kill();
    await upstream?.close();
    if (!("skipped" in names)) await names[Symbol.asyncDispose]();
  });

  const ask = (model: string): Promise<ChatReply> => chat(gateway, { model }, { key, timeoutMs: 20_000 });

  test("can be looked up is asked", async () => {
    expect(await ask("good")).toMatchObject({ status: 200, channel: "good" });
  });

  test("the name server fails to look up is passed over at once, and told as unreachable where it is the only one", async () => {
    const reply = await ask("failing");
    expect(reply).toMatchObject({ status: 200, channel: "beside" });
    expect(Number(reply.response.timing.endMs)).toBeLessThan(slowed(connectMs));
    expect(await ask("failing-alone")).toMatchObject({ status: 502, error: { code: "upstream_unreachable" } });
  });

  test("nobody answers for is passed over when its time to connect is over", async () => {
    const reply = await ask("silent");
    expect(reply).toMatchObject({ status: 200, channel: "beside" });
    expect(Number(reply.response.timing.endMs)).toBeGreaterThanOrEqual(connectMs - 1);
    expect(Number(reply.response.timing.endMs)).toBeLessThan(slowed(connectMs + 1_500));
  });

  test.each([
    ["one such name", Array.from({ length: 40 }, () => "silent-alone")],
    ["forty of them", crowd],
  ])("nobody answers for holds up no look-up of another, however many calls wait (%s)", async (_, models) => {
    let over = false;
    const stuck = Promise.all(models.map(ask)).finally(() => (over = true));
    const tookMs: number[] = [];
    while (!over) {
      // A new connection each time, and with it a look-up.
      upstream.closeIdleConnections();
      const beganMs = performance.now();
      expect((await ask("good")).status).toBe(200);
      tookMs.push(performance.now() - beganMs);
      await Bun.sleep(50);
    }
    for (const { status, error } of await stuck) expect([502, 503]).toContain(error === null ? 200 : status);
    expect(tookMs.length).toBeGreaterThan(10);
    expect(Math.max(...tookMs)).toBeLessThan(slowed(connectMs));
  });
});
