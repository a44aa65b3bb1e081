import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { ask } from "../ask.ts";
import type { Bench, Scenario } from "../bench.ts";
import { cpuMicroseconds, memberWith } from "../cpu.ts";
import { cpuShare } from "../cpu-share.ts";
import { oneChannel, type Gateway } from "../gateway.ts";
import { closedLoop, holdStreams } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { medianRatio } from "../statistics.ts";

/**
 * How much more four workers serve than one. Where there are cores for them, for the upstream and for the clients: calls per second of
 * four on four cores, to one on one core.
 *
 * Elsewhere four workers of one gateway are compared with four gateways of one process each, which share nothing: neither a port nor a store
 * nor limits. On as many cores these would serve four times what one does, so four times the ratio is what the four workers would. Each of
 * the eight has a slow core of its own, a control group with a fifth of a core, and both kinds have the same clients and the same load on
 * the machine, so that all that differs is what workers do to each other: locks of the store, limits they share, connections that
 * are spread unevenly. Whoever has used up its share may hold a lock meanwhile, which makes the figure lower than on cores, not higher.
 */
export const workers: Scenario = async (bench) => (availableParallelism() >= 2 * count ? onCores(bench) : onSlowCores(bench));

async function onCores(bench: Bench): Promise<readonly Row[]> {
  const one = await gatewayWith(bench, 1, "0");
  const four = await gatewayWith(bench, count, `0-${count - 1}`);
  if (one === null || four === null) return [];
  const measured = await inRounds(bench, { one: [one], four: [four] });
  await Promise.all([one.stop(), four.stop()]);
  return [
    rowOf("calls per second of four workers on four cores", "1/s", measured.four.perSecond, {
      judged: ["four/one", medianRatio(measured.four.perSecond, measured.one.perSecond)],
    }),
    rowOf("calls per second of one worker on one core", "1/s", measured.one.perSecond, {}),
    rowOf("CPU per call of four workers", "us", measured.four.micros, {
      compared: ["four/one", medianRatio(measured.four.micros, measured.one.micros)],
    }),
  ];
}

async function onSlowCores(bench: Bench): Promise<readonly Row[]> {
  const together = await gatewayWith(bench, count);
  const apart: Gateway[] = [];
  for (let at = 0; at < count; at += 1) {
    const gateway = await gatewayWith(bench, 1);
    if (gateway !== null) apart.push(gateway);
  }
  if (together === null || apart.length < count) return [];
  const uneven = await busiestShare(together, bench.options.quick ? 200 : 1_000);
  const pids = [...workersOf(together, count), ...apart.map(({ pid }) => pid)];
  let isSlow = true;
  const slowDown = (): (() => void) => {
    const shares = pids.map((pid) => cpuShare(pid, slowShare));
    isSlow = shares.every((share) => share !== null);
    return () => {
      for (const share of shares) share?.release();
    };
  };
  const measured = await inRounds(bench, { together: [together], apart }, slowDown);
  await Promise.all([together, ...apart].map((gateway) => gateway.stop()));
  if (!isSlow) bench.remark("workers: no control group can be made, which takes root: calls per second are those of busy cores");
  const rate = count * medianRatio(measured.together.perSecond, measured.apart.perSecond);
  const cost = count * medianRatio(measured.apart.micros, measured.together.micros);
  const each = isSlow ? `on ${slowShare} of a core each` : "on all cores";
  return [
    rowOf(`calls per second of four workers ${each}`, "1/s", measured.together.perSecond, { judged: ["4 x together/apart", rate] }),
    rowOf(`calls per second of four processes that share nothing ${each}`, "1/s", measured.apart.perSecond, {}),
    rowOf("CPU per call of four workers", "us", measured.together.micros, { compared: ["4 x apart/together", cost] }),
    rowOf("CPU per call of four processes that share nothing", "us", measured.apart.micros, {}),
    rowOf("connections of the busiest of four workers", "times the mean", [uneven], { compared: ["busiest/mean", uneven] }),
  ];
}

interface Measured {
  readonly perSecond: readonly number[];
  readonly micros: readonly number[];
}

/** Four clients, however many gateways they are for. `slowDown` is called when everything is warm, and what it returns at the end. */
async function inRounds<Name extends string>(
  { options }: Bench,
  variants: Readonly<Record<Name, readonly Gateway[]>>,
  slowDown: () => () => void = () => () => {},
): Promise<Readonly<Record<Name, Measured>>> {
  const all = Object.entries(variants) as [Name, readonly Gateway[]][];
  const results = Object.fromEntries(all.map(([name]) => [name, { perSecond: [], micros: [] }])) as unknown as Record<
    Name,
    { readonly perSecond: number[]; readonly micros: number[] }
  >;
  const load = async (gateways: readonly Gateway[], seconds: number): Promise<number> => {
    const clients = Array.from({ length: count }, (_, at) =>
      closedLoop(gateways[at % gateways.length]!, ask("json"), { connections: connections / count, seconds }),
    );
    return (await Promise.all(clients)).reduce((sum, { requests }) => sum + requests, 0);
  };
  console.error("workers, warm-up");
  for (const [, gateways] of all) await load(gateways, options.quick ? 1 : 15);
  const speedUp = slowDown();
  try {
    for (let round = 1; round <= options.rounds; round += 1) {
      console.error(`workers, round ${round} of ${options.rounds}`);
      for (const [name, gateways] of round % 2 === 1 ? all : all.toReversed()) {
        const cpu = (): number => gateways.reduce((sum, { pid }) => sum + cpuMicroseconds(pid), 0);
        await atRest(cpu);
        const before = cpu();
        const requests = await load(gateways, options.seconds);
        results[name].perSecond.push(requests / options.seconds);
        await atRest(cpu);
        results[name].micros.push((cpu() - before) / requests);
      }
    }
  } finally {
    speedUp();
  }
  return results;
}

/** Receipts are on their way to the store for a while after their calls. */
async function atRest(cpu: () => number): Promise<void> {
  const deadlineMs = performance.now() + 10_000;
  for (let before = cpu(); performance.now() < deadlineMs;) {
    await Bun.sleep(300);
    const now = cpu();
    if (now - before <= count * 15_000) return;
    before = now;
  }
}

function rowOf(
  measure: string,
  unit: string,
  values: readonly number[],
  as: { readonly judged?: readonly [string, number]; readonly compared?: readonly [string, number] },
): Row {
  return {
    bar: as.judged === undefined ? "" : "P21",
    measure,
    unit,
    raw: { gateway: values },
    judgement:
      as.judged !== undefined
        ? judged(...as.judged, { limit: 3.4, sense: "at least" })
        : as.compared !== undefined
          ? compared(...as.compared)
          : { kind: "unjudged", because: "compared above" },
  };
}

/** With a limit that is never reached, because limits are what workers share. */
async function gatewayWith(bench: Bench, number: number, cores?: string): Promise<Gateway | null> {
  const pinned = cores === undefined ? {} : { cores };
  const gateway = await bench.gatewayWith({ ...oneChannel(bench.upstream), workers: number, ...pinned, limits: { rpm: 100_000_000 } });
  for (let look = 0; gateway !== null && look < 200 && workersOf(gateway, number).length < number; look += 1) await Bun.sleep(100);
  return gateway;
}

/** One alone is the process itself; of several, each is told its number by their parent. */
function workersOf({ pid }: Gateway, number: number): readonly number[] {
  if (number === 1) return [pid];
  return Array.from({ length: number }, (_, at) => memberWith(pid, ["--worker", String(at + 1)])).filter((member) => member !== null);
}

/** The kernel spreads connections by a hash of their addresses: how many more than the mean the busiest worker has. */
async function busiestShare(gateway: Gateway, streams: number): Promise<number> {
  const openFiles = (): readonly number[] => workersOf(gateway, count).map((pid) => readdirSync(`/proc/${pid}/fd`).length);
  const before = openFiles();
  const holding = await holdStreams(gateway, "idle", { streams, stalled: false });
  const taken = openFiles().map((files, at) => files - (before[at] ?? 0));
  await holding.leave();
  return (Math.max(...taken) * taken.length) / taken.reduce((sum, files) => sum + files, 0);
}

const count = 4;
const connections = 256;
/** Of a core, for each process: four, the upstream and the clients have room on two cores. */
const slowShare = 0.2;
