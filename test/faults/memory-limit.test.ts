// Needs: quiet. It mostly waits for a gateway whose memory is limited to be refused more.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { startChaos } from "../support/chaos.ts";
import { chat, openChat, RawConnection, RawResponse } from "../support/client.ts";
import { startGateway } from "../support/gateway.ts";
import { makeMemoryGroup } from "../support/memory-group.ts";

setDefaultTimeout(60_000);

const mebibyte = 1024 * 1024;
const limitBytes = 300 * 1_000_000;
const group = makeMemoryGroup(limitBytes);
const missing = "skipped" in group ? ` (skipped: ${group.skipped})` : "";
const key = "sk-client-canary-0123456789abcdef";

describe.skipIf("skipped" in group)(`F70: a container of 300 MB${missing}`, () => {
  test("is not filled by large bodies: some are refused, small calls and streams go on, and nobody is killed", async () => {
    if ("skipped" in group) return;
    await using container = group;
    await using upstream = await startChaos();
    await using gateway = await startGateway({
      command: container.command,
      config: { keys: [{ name: "tester", key }], channels: [{ name: "a", base_url: upstream.url, models: "*" }] },
    });
    const streams = await Promise.all(
      Array.from({ length: 10 }, () => openChat(gateway, { x_tokens: 100, x_pace_ms: 50 }, { key, stream: true, timeoutMs: 40_000 })),
    );
    for (const call of streams) await call.untilBody(100);

    // Each would be 60 MiB; a fifth of it is sent, and then nothing more.
    const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Length: ${60 * mebibyte}\r\n\r\n`;
    const block = Buffer.alloc(mebibyte, "x");
    const senders: RawConnection[] = [];
    const answers: number[] = [];
    let mostBytes = 0;
    for (let sender = 0; sender < 30; sender += 1) {
      const connection = await RawConnection.open(gateway.url);
      senders.push(connection);
      void connection.receive(new RawResponse()).then(({ status }) => answers.push(status));
      await connection.send(Buffer.from(`${head}{"model":"m","messages":["`));
      for (let sent = 0; sent < 12; sent += 1) await connection.send(block);
      expect((await chat(gateway, { model: "small" }, { key })).status).toBe(200);
      mostBytes = Math.max(mostBytes, container.usedBytes());
    }
    expect(mostBytes).toBeLessThan(limitBytes);
    expect(answers.length).toBeGreaterThan(5);
    expect(new Set(answers)).toEqual(new Set([503]));
    const replies = await Promise.all(streams.map(({ reply }) => reply));
    expect(replies.map(({ status, done }) => [status, done])).toEqual(streams.map(() => [200, true]));
    for (const connection of senders) connection.close();
    expect((await chat(gateway, { model: "after" }, { key })).status).toBe(200);
    expect(gateway.running).toBe(true);
  });
});
