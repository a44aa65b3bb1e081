import { plainLedger } from "../test/support/ledger.ts";
import { dialects } from "../src/dialects/index.ts";
import { readAnswer } from "../src/dialects/openai/answer.ts";
import { loadConfig } from "../src/config/load.ts";
import { buildSnapshot } from "../src/config/snapshot.ts";
import { Timers } from "../src/clock/timers.ts";
import { UpstreamState } from "../src/gateway/upstream-state/upstream-state.ts";
import { Cancellation } from "../src/gateway/cancellation.ts";
import { Gateway } from "../src/gateway/gateway.ts";
import type { Ports, Reply } from "../src/gateway/ports.ts";
import { serve } from "../src/gateway/serve.ts";
import { readChatRequest } from "../src/operations/chat/chat-request.ts";
import { isFailure } from "../src/operations/failure.ts";
import { accessLine } from "../src/telemetry/access.ts";
import { Log } from "../src/telemetry/log.ts";

/** What the gateway's own code costs per whole answer, without any network: microseconds of one core for each step. */
const text = `
keys: [{ name: bench, key: bench-bench-bench-bench-bench-bench }]
channels: [{ name: up, dialect: openai, base_url: "http://127.0.0.1:9/v1", api_key: x, models: [bench-model] }]
`;
const loaded = await loadConfig({ path: null, text, env: {}, nofile: 1024 });
if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
const snapshot = buildSnapshot(loaded.settings, new Map());
const key = loaded.settings.keys[0]!.key;
const route = snapshot.routes.get("bench-model")!;

const body = new TextEncoder().encode(
  JSON.stringify({
    model: "bench-model",
    messages: [
      { role: "system", content: "You are a helpful assistant who answers briefly." },
      { role: "user", content: "Say something friendly about the weather in Paris today, please." },
    ],
    temperature: 0.7,
    max_tokens: 256,
  }),
);
const answer = new TextEncoder().encode(
  JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "bench-model",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: "It is a lovely day. ".repeat(20), refusal: null },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: { prompt_tokens: 20, completion_tokens: 100, total_tokens: 120 },
  }),
);
const reply: Reply = {
  kind: "reply",
  status: 200,
  header: () => null,
  bytes: () => Promise.resolve(answer),
  next: () => Promise.resolve(null),
  cancel: () => {},
};
const ports: Ports = {
  send: () => ({ reply: Promise.resolve(reply), abort: () => {} }),
  nowMs: () => performance.now(),
  dice: Math.random,
  after: (ms, then) => {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
  timers: new Timers(() => performance.now()),
  tools: { transcoder: () => Promise.resolve(null) },
};
const log = new Log((line) => line.length);
const upstreams = new UpstreamState(ports);
const quiet = new Gateway(ports, upstreams, dialects, plainLedger());
const loud = new Gateway(
  ports,
  upstreams,
  dialects,
  plainLedger((record) => log.traffic(accessLine(record, log.time()))),
);

function read() {
  const ask = readChatRequest(body);
  if (isFailure(ask)) throw new Error(ask.detail);
  return ask;
}

const asked = read();

function call(gateway: Gateway) {
  const facts = {
    id: "req_1",
    keyId: key.id,
    operation: "chat",
    model: asked.model,
    stream: false,
    bytesIn: body.length,
    startedMs: ports.nowMs(),
    waitedMs: 0,
    admission: null,
  } as const;
  const call = {
    facts,
    key,
    ask: asked,
    route,
    split: false,
    snapshot,
    headers: { header: () => null },
    cancellation: new Cancellation(),
    surface: null,
  };
  return serve(call, gateway);
}

async function measure(name: string, step: () => unknown): Promise<void> {
  const times = 50_000;
  let best = Infinity;
  for (let round = 0; round < 4; round++) {
    const began = process.cpuUsage();
    for (let at = 0; at < times; at++) await step();
    const { user, system } = process.cpuUsage(began);
    best = Math.min(best, (user + system) / times);
  }
  console.log(`${name.padEnd(40)} ${best.toFixed(2)} us`);
}

const codec = dialects.get("openai")!.chat!;
const channel = snapshot.channels[0]!;
await measure("an await of nothing", () => Promise.resolve());
await measure("read a request", read);
await measure("plan", () => upstreams.plan(route, 20, 60_000, ports.nowMs()));
await measure("book an attempt", () => {
  const reporter = upstreams.begin({ candidate: route.tiers[0]![0]!, probe: false }, "bench-model", ports.nowMs(), true);
  reporter.firstContent(ports.nowMs());
  reporter.succeeded(ports.nowMs());
});
await measure("encode", () => codec.encode(asked, { channel, model: "bench-model", ceiling: null, meterStream: true, forwarded: {} }));
await measure("read an answer", () => readAnswer(answer));
await measure("serve, without a log", () => call(quiet));
await measure("serve, with a log line", () => call(loud));
