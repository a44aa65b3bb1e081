// Needs: quiet. It mostly waits for a process that stands still.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { ChatCall } from "../support/client.ts";
import { setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** Longer than every patience below, so that all of it is over when the process goes on. */
const standsStillMs = 2_300;

let rig: Rig<"a" | "b">;

beforeAll(async () => {
  const timeouts = { first_byte: "1s", first_content: "1s", idle: "1s", progress: "1s" };
  rig = await setUp({ a: { tier: 1, timeouts }, b: { tier: 2 } }, { server: { write_stall: "1s" } });
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

function open(count: number, body: Record<string, unknown>, stream: boolean): Promise<readonly ChatCall[]> {
  return Promise.all(Array.from({ length: count }, () => rig.open(body, { stream, timeoutMs: 20_000 })));
}

test("F69: a process that stood still for two seconds blames nobody for its own silence, cuts nobody off, and turns nobody away", async () => {
  const flowing = await open(20, { model: "flows", x_tokens: 80, x_pace_ms: 50 }, true);
  for (const call of flowing) await call.untilBody(100);
  const waiting = [
    ...(await open(20, { model: "first-content", x_first_ms: 500 }, true)),
    ...(await open(20, { model: "whole", x_first_ms: 500 }, false)),
  ];
  const asked = ({ call }: ChatCall): boolean => rig.upstream.a.ledger.ofCall(call ?? "").length === 1;
  await rig.upstream.a.waitFor(() => waiting.every(asked));

  rig.gateway.signal("SIGSTOP");
  const coming = open(100, { model: "comes" }, false);
  await Bun.sleep(standsStillMs);
  rig.gateway.signal("SIGCONT");

  const served = await Promise.all([...flowing, ...waiting].map(({ reply }) => reply));
  for (const reply of served) {
    expect([reply.status, reply.error, reply.finishReason, rig.path(reply)]).toEqual([200, null, "stop", ["a"]]);
  }
  const answers = await Promise.all((await coming).map(({ reply }) => reply));
  // It was late, but not by its own work: whoever came meanwhile is served.
  for (const reply of answers) expect([reply.status, reply.error, reply.finishReason, rig.path(reply)]).toEqual([200, null, "stop", ["a"]]);

  expect(rig.gateway.logs.filter(({ event }) => event === "cooling")).toEqual([]);
  expect((await rig.chat({ model: "whole" })).channel).toBe("a");
  await rig.check({ graceMs: standsStillMs + 1_000 });
});
