// Needs: quiet. It mostly waits for streams to end before the process does.
import { expect, setDefaultTimeout, test } from "bun:test";
import { chat, openChat, rawRequest, type ChatReply } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { waitedMs } from "../support/cpu.ts";
import { clientKey, setUp } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(90_000);

/** As shipped. */
const lingerMs = 5_000;
/** Shipped are 120 s; nothing but the wait for streams that never end depends on it. */
const drainMs = 13_000;

/** More than this, and the system let others run for so long that the gateway may have turned calls away for its own sake. */
const busyMs = 1_000;

interface Knock {
  readonly atMs: number;
  readonly overMs: number;
  readonly reply: ChatReply | null;
  /** Why there was no answer: the code of the connection's error. */
  readonly error: string | null;
}

/** Calls at a steady pace, each on a connection of its own, until nobody listens any more. */
async function knocking(gateway: Gateway, perSecond: number, until: () => boolean): Promise<Knocking> {
  const beganMs = performance.now();
  const waitedBefore = waitedMs(gateway.pid) ?? 0;
  let waited = 0;
  const knocks: Promise<Knock>[] = [];
  while (!until()) {
    const due = Math.floor(((performance.now() - beganMs) / 1_000) * perSecond);
    while (knocks.length < due) knocks.push(knock(gateway));
    // While it lives.
    waited = (waitedMs(gateway.pid) ?? waited + waitedBefore) - waitedBefore;
    await Bun.sleep(5);
  }
  return { knocks: await Promise.all(knocks), isBusy: waited > busyMs };
}

interface Knocking {
  readonly knocks: readonly Knock[];
  /** Whether the machine was busy with others meanwhile. */
  readonly isBusy: boolean;
}

async function knock(gateway: Gateway): Promise<Knock> {
  const atMs = performance.now();
  try {
    const reply = await chat(gateway, { x_tokens: 5 }, { key: clientKey, stream: true, timeoutMs: 30_000 });
    return { atMs, overMs: performance.now(), reply, error: null };
  } catch (error) {
    return { atMs, overMs: performance.now(), reply: null, error: (error as { code?: string }).code ?? String(error) };
  }
}

function isWhole({ status, finishReason, done, error }: ChatReply): boolean {
  return status === 200 && finishReason === "stop" && done && error === null;
}

test("F63: SIGTERM under 200 streams and 100 calls a second refuses nobody for 5 s, ends every stream with its end or a reason, and exits with 0", async () => {
  await using rig = await setUp({ a: {} }, { server: { drain: `${drainMs}ms` } });
  const { gateway } = rig;
  let over = false;
  const load = knocking(gateway, 100, () => over);
  // Three of four end by themselves, from soon to long after nobody is let in; the fourth never would.
  const streams = await Promise.all(
    Array.from({ length: 200 }, (_, at) =>
      rig.open({ x_tokens: at % 4 === 3 ? 100_000 : 20 + (at % 30), x_pace_ms: 200 }, { stream: true, timeoutMs: 80_000 }),
    ),
  );
  await eventually("all of them run", () => streams.every(({ response }) => response.bodyLength > 300), 20_000);

  const signalledMs = performance.now();
  gateway.signal("SIGTERM");
  // The last moment at which it was surely ready.
  let readyMs = signalledMs;
  await eventually(
    "readiness is withdrawn",
    async () => {
      const askedMs = performance.now();
      const { status } = await rawRequest(`${gateway.url}/readyz`);
      if (status === 200) readyMs = askedMs;
      return status === 503;
    },
    1_000,
  );
  expect(performance.now() - signalledMs).toBeLessThan(slowed(1_000));

  const replies = await Promise.all(streams.map(({ reply }) => reply));
  const code = await gateway.exited;
  const tookMs = performance.now() - signalledMs;
  over = true;
  const { knocks, isBusy } = await load;

  expect(code).toBe(0);
  expect(tookMs).toBeLessThan(slowed(lingerMs + drainMs + 5_000));
  expect(tookMs).toBeGreaterThan(lingerMs + drainMs - 6_000);

  // Whoever knocks in the last moment may be heard after it: what counts is when the answer came.
  const early = knocks.filter(({ overMs }) => overMs < readyMs + lingerMs);
  expect(early.length).toBeGreaterThan(400);
  const refused = early.flatMap(({ error, reply }) => (reply !== null && isWhole(reply) ? [] : [error ?? reply?.error?.code]));
  expect(refused.filter((code) => !isBusy || code !== "overloaded")).toEqual([]);
  // Afterwards nobody is let in, and nobody is let in halfway.
  const late = knocks.filter(({ atMs }) => atMs > readyMs + lingerMs + 1_000);
  expect(late.length).toBeGreaterThan(400);
  expect([...new Set(late.map(({ error }) => error))]).toEqual(["ECONNREFUSED"]);

  const endless = replies.filter((_, at) => at % 4 === 3);
  const ending = replies.filter((_, at) => at % 4 !== 3);
  expect(ending.filter((reply) => !isWhole(reply)).map(({ status, error }) => [status, error])).toEqual([]);
  for (const { status, error, done, response } of endless) {
    expect([status, error?.code, done, response.endedCleanly]).toEqual([200, "server_shutting_down", false, true]);
  }

  await eventually("its last lines are read", () => gateway.logs.some(({ event }) => event === "stopped"));
  const states = Map.groupBy(gateway.accessLines(), ({ state }) => String(state));
  expect(states.get("interrupted")?.length).toBe(endless.length);
  // Beside these, one call was made when the gateway was set up.
  const answered = knocks.filter(({ reply }) => reply !== null && isWhole(reply)).length;
  expect(states.get("complete")?.length).toBe(ending.length + answered + 1);
});

test("SIGTERM cuts no answer off that its client still reads, however large it is and although its call is over", async () => {
  // More than the buffers of the system hold.
  const content = "x".repeat(15 * 1024 * 1024);
  const completion = { object: "chat.completion", choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }] };
  await using upstream = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json(completion) });
  const channels = [{ name: "a", base_url: `http://127.0.0.1:${upstream.port}/v1`, models: ["large"] }];
  const config = { keys: [{ name: "tester", key: clientKey }], channels, server: { linger: "0ms", drain: "20s" } };
  await using gateway = await startGateway({ config });
  const call = await openChat(gateway, { model: "large" }, { key: clientKey, timeoutMs: 60_000, stopReadingAfterBytes: 1 });
  await gateway.waitForLog(({ event, model }) => event === "call" && model === "large");
  gateway.signal("SIGTERM");
  await gateway.waitForLog(({ event }) => event === "stopping");
  // It used to give connections half a second after the last call had ended.
  await Bun.sleep(1_500);
  call.resumeReading();
  const { status, response } = await call.reply;
  expect([status, response.endedCleanly, response.bodyLength > content.length]).toEqual([200, true, true]);
  expect(await gateway.exited).toBe(0);
});
