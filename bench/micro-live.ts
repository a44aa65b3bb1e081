/**
 * The CPU time that an open live page adds to a call, by itself: 200 calls a second end in a process that does nothing else, and are
 * watched for every other few seconds. The difference is far smaller than what two whole gateways differ by, and here there is nothing else
 * to differ. Between frames the process sleeps, so that caches are as cold as they get. Run with: sh bin/bun bench/micro-live.ts
 */
import { eventStream } from "../src/admin/event-stream.ts";
import { EventResult } from "../src/admin/route.ts";
import { liveRoutes } from "../src/admin/routes/live-routes.ts";
import type { CallRecord } from "../src/gateway/settlement/record.ts";
import { LiveFeed } from "../src/telemetry/live/live-feed.ts";
import type { Receipt } from "../src/usage/receipt.ts";
import { median } from "./statistics.ts";

const perSecond = 200;
const seconds = 4;
const turns = 6;

const feed = new LiveFeed({
  running: () => [],
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after: (ms, then) => {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
  processes: 1,
  otherReports: null,
});
const services = {
  live: (watcher: Parameters<LiveFeed["watch"]>[0]) => feed.watch(watcher),
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  fileKeys: () => [{ id: "key_bench", name: "bench" }],
};
const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  idleTimeout: 0,
  fetch: async (request) => {
    const result = await liveRoutes[0]?.handle({ services } as never);
    if (!(result instanceof EventResult)) throw new Error("the route of the live calls answers with something else");
    return eventStream(result, new Headers(), request.signal, () => Promise.resolve(true));
  },
});

const added: number[] = [];
for (let turn = 0; turn <= turns; turn += 1) {
  const unwatched = await microsPerCall();
  // In another process, whose CPU time is not that of the gateway.
  const page = Bun.spawn(["curl", "-sN", server.url.href], { stdout: "ignore" });
  await Bun.sleep(500);
  const seen = await microsPerCall();
  // The first turn is that of the compiler.
  if (turn > 0) added.push(seen - unwatched);
  page.kill();
  await page.exited;
  await Bun.sleep(500);
}
console.log(`${median(added).toFixed(1)} us a call, in turns ${added.map((micros) => micros.toFixed(1)).join(" ")}`);
await server.stop(true);
process.exit(0);

async function microsPerCall(): Promise<number> {
  const before = process.cpuUsage();
  const beganMs = performance.now();
  let calls = 0;
  while (calls < perSecond * seconds) {
    const due = Math.min(perSecond * seconds, Math.floor(((performance.now() - beganMs) / 1000) * perSecond));
    for (; calls < due; calls += 1) end(calls);
    await Bun.sleep(5);
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / calls;
}

function end(call: number): void {
  const startedMs = performance.now() - 20;
  const attempt = {
    channel: "up",
    model: "bench-json",
    startedMs: startedMs + 1,
    tookMs: 18,
    outcome: "answered",
    failure: null,
    hedge: false,
  };
  const record = {
    ...{ id: `req_0123456789abcdef${call}`, keyId: "key_bench", operation: "chat", model: "bench-json", stream: false },
    ...{ startedMs, endedMs: startedMs + 20, state: "complete", status: 200, failure: null, firstContentMs: 19 },
    attempts: [{ ...attempt, outputTokens: 12, usage: { completionTokens: 12 } }],
  };
  feed.observe(record as unknown as CallRecord, { id: `rcp_0123456789abcdef${call}`, billedNanos: 123_456 } as unknown as Receipt);
}
