/**
 * What a call's limits cost, in microseconds and in commands to Redis: in memory, with leases, with a concurrency slot, and exactly.
 * `sh bin/bun bench/micro-leases.ts [redis://…]`; without an address it starts a `redis-server` of its own.
 */
import { MemoryRateLimits } from "../src/state/memory-rate-limits.ts";
import { ListedReservationRequest, type RateLimitStore } from "../src/limits/rate-limit-store.ts";
import { LeasedRateLimits } from "../src/state/leases/leased-rate-limits.ts";
import { RedisCounts } from "../src/state/redis/counts.ts";
import { RedisLink } from "../src/state/redis/link.ts";
import { StoreGuard } from "../src/state/store-guard.ts";

const [, , given] = process.argv;
const started = given === undefined ? await startedHere() : { url: given, stop: () => {} };
const link = new RedisLink({ url: started.url, connectMs: 2_000 });
const counts = new RedisCounts(link, { prefix: `bench-${process.pid}:` });
const nowMs = (): number => performance.now();
const after = (ms: number, then: () => void): (() => void) => {
  const timer = setTimeout(then, ms);
  return () => clearTimeout(timer);
};
const guard = new StoreGuard({ nowMs, after, probe: () => counts.heartbeat("bench", 15_000), overdue: () => link.drop() });
const leased = new LeasedRateLimits({ counts, guard, local: new MemoryRateLimits(nowMs), processes: () => 4, nowMs, after });

const limit = 500_000_000;
const loose = { requests: limit, tokens: limit };

await measured("memory", new MemoryRateLimits(nowMs), 300_000, loose, false);
await measured("leases", leased, 300_000, loose, false);
await measured("leases, 100 keys", leased, 300_000, loose, false, 100);
await measured("leases, with a slot", leased, 10_000, loose, true);
await measured("exact", leased, 10_000, { requests: 49, tokens: limit }, false, 1_000);
await measuredPaced("leases at 1,000 a second, 600,000 a minute", 1_000, 600_000);
await measuredPaced("leases at 100 a second, 6,600 a minute", 100, 6_600);
await measuredPaced("leases at 10 a second, 600 a minute", 10, 600);
await leased.stop();
guard.stop();
link.close();
started.stop();

async function measured(
  name: string,
  rates: RateLimitStore,
  calls: number,
  limits: { readonly requests: number; readonly tokens: number },
  slots: boolean,
  keys = 1,
): Promise<void> {
  const round = async (first: number, last: number): Promise<void> => {
    for (let call = first; call < last; call += 1) {
      const key = `${name}-${call % keys}`;
      const claims = [
        { id: `${key} rpm`, limit: limits.requests, amount: 1 },
        { id: `${key} tpm`, limit: limits.tokens, amount: 100 },
      ];
      const answer = rates.reserve(
        new ListedReservationRequest(claims, slots ? [{ id: `${key} slots`, limit: 100 }] : [], `${name}-${call}`),
      );
      const reservation = answer instanceof Promise ? await answer : answer;
      if (reservation.ok) reservation.settle([1, 90]);
      // Calls come from sockets: the loop turns.
      if (call % 100 === 99) await new Promise<void>((resolve) => setImmediate(resolve));
    }
  };
  await round(0, calls / 10);
  await quiet();
  const before = link.commands;
  const beganMs = nowMs();
  await round(calls / 10, calls);
  report(name, calls * 0.9, nowMs() - beganMs, link.commands - before);
}

async function measuredPaced(name: string, perSecond: number, perMinute: number): Promise<void> {
  await quiet();
  const before = link.commands;
  const beganMs = nowMs();
  let calls = 0;
  let busyMs = 0;
  while (nowMs() - beganMs < 3_000) {
    for (const due = ((nowMs() - beganMs) * perSecond) / 1_000; calls < due; calls += 1) {
      const began = nowMs();
      const reservation = leased.reserve(new ListedReservationRequest([{ id: `${name} rpm`, limit: perMinute, amount: 1 }], [], ""));
      busyMs += nowMs() - began;
      void Promise.resolve(reservation).then((settled) => settled.ok && settled.settle([1]));
    }
    await Bun.sleep(1);
  }
  report(name, calls, busyMs, link.commands - before);
}

/** What the calls before left behind has been told. */
async function quiet(): Promise<void> {
  await Bun.sleep(1_500);
}

function report(name: string, calls: number, ms: number, commands: number): void {
  const each = ((ms * 1_000) / calls).toFixed(2);
  console.log(`${name.padEnd(46)} ${each.padStart(8)} us a call ${(commands / calls).toFixed(4).padStart(8)} commands a call`);
}

async function startedHere(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = listener;
  listener.stop(true);
  const server = Bun.spawn(["redis-server", "--port", String(port), "--save", "", "--appendonly", "no"], { stdout: "pipe" });
  for await (const bytes of server.stdout) if (new TextDecoder().decode(bytes).includes("eady to accept")) break;
  return { url: `redis://127.0.0.1:${port}`, stop: () => server.kill() };
}
