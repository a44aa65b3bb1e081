// Needs: quiet. It mostly waits for pauses that a client makes.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import net, { type AddressInfo } from "node:net";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat, openChat, rawRequest, sseEvents } from "../support/client.ts";

let chaos: Chaos;

beforeAll(async () => {
  chaos = await startChaos();
});

afterAll(async () => {
  await chaos.close();
});

describe("a client that leaves", () => {
  const endless = { model: "fault:heartbeat-after@2" };

  test.each(["after-request", "after-head", { afterBodyBytes: 10 }, { afterMs: 20 }] as const)("%j", async (abort) => {
    const reply = await chat(chaos, endless, { stream: true, abort });
    expect(reply.response).toMatchObject({ aborted: true, endedCleanly: false });
    if (abort === "after-head") expect(reply.status).toBe(200);
    await chaos.ledger.settled();
    if (abort !== "after-request") expect(chaos.ledger.chats.at(-1)?.endedBy).toBe("client_closed");
  });

  test("before it has said anything", async () => {
    const before = chaos.ledger.attempts.length;
    await chat(chaos, {}, { abort: "after-connect" });
    await chaos.waitFor((ledger) => ledger.connectionsOpen === 0);
    expect(chaos.ledger.attempts.length).toBe(before);
  });

  test("by a reset, when the test says so", async () => {
    const call = await openChat(chaos, endless, { stream: true, abortBy: "reset" });
    await call.untilHead();
    await call.untilBody(100);
    call.abort();
    expect((await call.reply).response.aborted).toBe(true);
    await chaos.ledger.settled();
  });
});

test("an answer that does not end is reported", async () => {
  const complaint = await chat(chaos, { model: "fault:silent" }, { timeoutMs: 30 }).then(
    () => "",
    (error: Error) => error.message,
  );
  expect(complaint).toContain("did not end within 30 ms: status 0");
});

test("a request can be dripped, and an answer sipped", async () => {
  const dripped = await chat(chaos, '{"model":"x"}', { sendByteMs: 1 });
  expect(dripped.status).toBe(200);
  const startedAt = performance.now();
  // It is sent in 80 ms; whoever reads ten thousand bytes a second rests longer than that after what came in the meantime.
  const sipped = await chat(chaos, { x_tokens: 40, x_pace_ms: 2 }, { stream: true, readBytesPerSecond: 10_000 });
  expect(sipped.done).toBe(true);
  expect(performance.now() - startedAt).toBeGreaterThan(120);
});

test("a client that has sent its FIN still hears the answer", async () => {
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("data", () => {});
    socket.on("end", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const response = await rawRequest(`http://127.0.0.1:${port}/`, { halfClose: true });
  expect([response.text, response.endedCleanly]).toEqual(["ok", true]);
  await new Promise((resolve) => server.close(resolve));
});

test("a stream is read strictly", () => {
  expect(sseEvents(": hello\n\ndata: a\ndata:b\n\nevent: x\r\ndata: c\r\n\r\ndata: lost\n")).toEqual({
    data: ["a\nb", "c"],
    comments: ["hello"],
    others: ["event: x"],
    trailing: "data: lost\n",
  });
});
