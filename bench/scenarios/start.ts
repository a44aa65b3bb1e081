import { models } from "../ask.ts";
import type { Scenario } from "../bench.ts";
import { cpuMicroseconds, residentBytes } from "../cpu.ts";
import type { GatewaySettings } from "../gateway.ts";
import { compared, judged, type Row } from "../report.ts";
import { median, medianRatio } from "../statistics.ts";

/**
 * From the command to the first accepted request (P12), and the memory of a gateway that nothing was asked of. The bars hold for the
 * package as it is installed; a checkout is measured beside it.
 */
export const start: Scenario = async (bench) => {
  const port = bench.upstream.ports[0] ?? 0;
  const channels = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `up-${index}`, port, models: [models.json] }));
  const asked: readonly Asked[] = [
    { title: "one key and one channel", settings: { channels: channels(1) }, msMax: 500 },
    { title: "100 channels", settings: { channels: channels(100) }, msMax: 2000 },
    { title: "10,000 keys and 100 channels", settings: { channels: channels(100), keys: 10_000 }, msMax: 2000 },
  ];
  const measured = asked.map((each) => ({ ...each, installed: noStarts(), checkout: noStarts() }));
  const floor = noStarts();
  for (let round = 1; round <= 3; round += 1) {
    console.error(`start, round ${round} of 3`);
    for (const { settings, installed, checkout } of measured) {
      for (const [isInstalled, into] of [
        [true, installed],
        [false, checkout],
      ] as const) {
        const gateway = await bench.gatewayWith({ ...settings, isInstalled });
        if (gateway === null) continue;
        into.ms.push(gateway.readyMs);
        into.cpu.push(cpuMicroseconds(gateway.pid) / 1000);
        if (round === 1) into.memory.push(await restingMegabytes(gateway.pid));
        await gateway.stop();
      }
    }
    const reference = await bench.fresh("floor");
    if (reference === null) continue;
    floor.ms.push(reference.readyMs);
    floor.cpu.push(cpuMicroseconds(reference.pid) / 1000);
    if (round === 1) floor.memory.push(await restingMegabytes(reference.pid));
    await reference.stop();
  }
  return measured.flatMap(({ title, msMax, installed, checkout }): readonly Row[] => [
    {
      bar: "P12",
      measure: `start to ready, ${title}`,
      unit: "ms",
      raw: { floor: floor.ms, gateway: installed.ms },
      judgement: judged("gateway", median(installed.ms), { limit: msMax, sense: "at most" }),
    },
    besideFloor(`CPU from start to ready, ${title}`, "ms", installed.cpu, floor.cpu),
    besideFloor(`memory before the first call, ${title}`, "MB", installed.memory, floor.memory),
    ofCheckout(`start to ready, ${title}`, "ms", checkout.ms, installed.ms),
    ofCheckout(`CPU from start to ready, ${title}`, "ms", checkout.cpu, installed.cpu),
    ofCheckout(`memory before the first call, ${title}`, "MB", checkout.memory, installed.memory),
  ]);
};

interface Asked {
  readonly title: string;
  readonly settings: GatewaySettings;
  readonly msMax: number;
}

/** One value for each round; of memory, one in all. */
interface Starts {
  readonly ms: number[];
  readonly cpu: number[];
  readonly memory: number[];
}

function noStarts(): Starts {
  return { ms: [], cpu: [], memory: [] };
}

function besideFloor(measure: string, unit: string, gateway: readonly number[], floor: readonly number[]): Row {
  return { bar: "", measure, unit, raw: { floor, gateway }, judgement: compared("gateway/floor", medianRatio(gateway, floor)) };
}

function ofCheckout(measure: string, unit: string, gateway: readonly number[], installed: readonly number[]): Row {
  const judgement = compared("checkout/installed", medianRatio(gateway, installed));
  return { bar: "", measure: `${measure}, from a checkout`, unit, raw: { gateway }, judgement };
}

/** What a start leaves behind is collected by the clock, after some ten seconds. Memory differs little from round to round. */
async function restingMegabytes(pid: number): Promise<number> {
  await Bun.sleep(15_000);
  return residentBytes(pid) / 1e6;
}
