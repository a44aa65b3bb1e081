// Needs: quiet. It mostly waits for connections to be refused or closed; the open files that it counts are those of its own gateway.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat, openChat, RawConnection } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { product } from "../support/product.ts";

setDefaultTimeout(60_000);

const key = "sk-client-canary-0123456789abcdef";
const openFiles = 256;
let upstream: Chaos;
let gateway: Gateway;

beforeAll(async () => {
  upstream = await startChaos({ name: "a" });
  gateway = await startGateway({
    command: ["sh", "-c", `ulimit -n ${openFiles}; exec sh "$0" "$@"`, product],
    config: {
      keys: [{ name: "tester", key }],
      channels: [{ name: "a", base_url: upstream.url, models: "*" }],
      server: { in_flight: 40 },
    },
  });
});

afterAll(async () => {
  await gateway.kill();
  await upstream.close();
});

/** What somebody who comes now is told; one who is hung up on is told nothing. */
function newcomer(): Promise<string> {
  return chat(gateway, { model: "new" }, { key, timeoutMs: 5_000 }).then(
    ({ status, response }) => (response.wasReset ? "reset" : String(status)),
    (error: Error & { code?: string }) => (error.code === "ECONNRESET" ? "reset" : error.message),
  );
}

const turnedAway: ReadonlySet<string> = new Set(["reset", "503"]);

/** Milliseconds of processor time so far. */
function cpuMs(): number {
  const fields = readFileSync(`/proc/${gateway.pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

test.skipIf(process.platform !== "linux")(
  "F68: with 256 open files and 300 connections that say nothing, streams go on, newcomers are turned away, and it recovers",
  async () => {
    expect((await chat(gateway, { model: "first" }, { key })).status).toBe(200);
    const streams = await Promise.all(
      Array.from({ length: 20 }, () => openChat(gateway, { x_tokens: 150, x_pace_ms: 20 }, { key, stream: true, timeoutMs: 20_000 })),
    );
    for (const call of streams) await call.untilBody(100);

    const opened = await Promise.allSettled(Array.from({ length: 300 }, () => RawConnection.open(gateway.url)));
    const silent = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const beganMs = performance.now();
    const cpuBefore = cpuMs();
    expect(new Set(await Promise.all(Array.from({ length: 10 }, newcomer))).difference(turnedAway)).toEqual(new Set());
    await Bun.sleep(1_500);
    // Whoever accepts in vain again and again would need all of it, and twenty streams need a little.
    expect((cpuMs() - cpuBefore) / (performance.now() - beganMs)).toBeLessThan(0.7);
    expect(gateway.fds()).toBeLessThan(openFiles);

    const replies = await Promise.all(streams.map(({ reply }) => reply));
    expect(replies.map(({ status, done, error }) => [status, done, error])).toEqual(streams.map(() => [200, true, null]));
    for (const connection of silent) connection.close();
    await eventually("it serves again", async () => (await chat(gateway, { model: "again" }, { key })).status === 200);
    expect(gateway.running).toBe(true);
    expect(gateway.logs.filter(({ level }) => level === "error" || level === "warn")).toEqual([]);
  },
);
