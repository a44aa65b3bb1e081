// Needs: quiet, long. It mostly waits; the open files and the memory are those of its own gateway, which is told to collect its garbage.
import { expect, setDefaultTimeout, test } from "bun:test";
import type { ChatCall } from "../support/client.ts";
import { collected, collects } from "../support/collected.ts";
import { waitedMs } from "../support/cpu.ts";
import { eventually } from "../support/eventually.ts";
import { heldUpMs } from "../support/held-up.ts";
import { setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const streams = 1_000;
const keepAliveMs = 600;
/** How long nothing happens on any of them: `npm run bench -- --only idle` has nine thousand, and takes as long as it is told. */
const idleMs = 2_000;
const bytesEachMax = 32 * 1024;
/** More than this, and the system let others run for so long that the gateway may have turned calls away for its own sake. */
const busyMs = 1_000;

test(`F67: ${streams} streams that say nothing all live, hear on time that they do, and leave nothing behind when they go at once`, async () => {
  await using rig = await setUp(
    { a: { concurrency: 2 * streams } },
    { server: { in_flight: 2 * streams, keep_alive: `${keepAliveMs}ms` } },
    { env: collects },
  );
  // The memory of the first of so many stays with the process.
  await left(rig, await opened(rig));
  const before = await collected(rig.gateway);
  const fds = rig.gateway.fds() ?? 0;

  const calls = await opened(rig);
  const sinceMs = performance.now();
  const waitedBeforeMs = waitedMs(rig.gateway.pid) ?? 0;
  const heard = calls.map(({ response }) => {
    const times: number[] = [sinceMs];
    response.onProgress = () => times.push(performance.now());
    return times;
  });
  await Bun.sleep(idleMs);
  await eventually("all have heard twice", () => heard.every(({ length }) => length > 2), 20_000);
  const during = await collected(rig.gateway);
  const ended = performance.now();
  const gaps = heard.map((times) => Math.max(...[...times, ended].map((time, at) => time - (times[at - 1] ?? sinceMs))));
  expect(calls.filter(({ response }) => response.timing.endMs !== null)).toEqual([]);
  expect(Math.max(...gaps)).toBeLessThan(
    slowed(keepAliveMs + 1_000 + heldUpMs(sinceMs) + (waitedMs(rig.gateway.pid) ?? 0) - waitedBeforeMs),
  );
  expect((during.rssBytes - before.rssBytes) / streams).toBeLessThan(bytesEachMax);

  const tookMs = await left(rig, calls);
  expect(tookMs).toBeLessThan(slowed(10_000));
  expect(rig.gateway.fds()! - fds).toBeLessThanOrEqual(2);
  const isGivenBack = async () => (await collected(rig.gateway)).rssBytes - before.rssBytes < 20_000_000;
  await eventually("their memory is given back", isGivenBack, 10_000 - tookMs);
  await rig.check({ withinMs: 10_000 });
});

/** So many streams of which one token has arrived. A few at a time: this is no herd. */
async function opened(rig: Rig<"a">): Promise<readonly ChatCall[]> {
  const calls: ChatCall[] = [];
  const refused: ChatCall[] = [];
  const waitedBeforeMs = waitedMs(rig.gateway.pid) ?? 0;
  while (calls.length < streams) {
    const some = await Promise.all(
      Array.from({ length: 50 }, () => rig.open({ model: "fault:hang-after@1" }, { stream: true, timeoutMs: 60_000 })),
    );
    const hasBegun = ({ response }: ChatCall): boolean => response.bodyLength >= 300 || response.timing.endMs !== null;
    await eventually("each has a token, or was refused", () => some.every(hasBegun), 30_000);
    for (const call of some) (call.response.status === 200 ? calls : refused).push(call);
  }
  // A machine that is busy with others may have made the gateway turn some away; nothing else may.
  const isBusy = (waitedMs(rig.gateway.pid) ?? 0) - waitedBeforeMs > busyMs;
  expect(isBusy ? [] : refused).toEqual([]);
  return calls;
}

/** All leave at the same moment. Gives the time until the upstream and the system have them no more. */
async function left({ gateway, upstream }: Rig<"a">, calls: readonly ChatCall[]): Promise<number> {
  const fds = gateway.fds()!;
  const leftMs = performance.now();
  for (const call of calls) call.abort();
  const areGone = () => upstream.a.ledger.connectionsOpen === 0 && gateway.fds()! <= fds - 2 * streams;
  await eventually("all of them are gone", areGone, 20_000);
  return performance.now() - leftMs;
}
