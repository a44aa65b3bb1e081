import { models } from "../ask.ts";
import type { Scenario } from "../bench.ts";
import { cpuMicroseconds } from "../cpu.ts";
import type { GatewaySettings } from "../gateway.ts";
import { compared, judged, type Row } from "../report.ts";
import { median, medianRatio } from "../statistics.ts";

/** From the command to the first accepted request (P12). */
export const start: Scenario = async (bench) => {
  const port = bench.upstream.ports[0] ?? 0;
  const one: GatewaySettings = { channels: [{ name: "up", port, models: [models.json] }] };
  const many: GatewaySettings = {
    channels: Array.from({ length: 100 }, (_, index) => ({ name: `up-${index}`, port, models: [models.json] })),
    keys: 10_000,
  };
  const small: number[] = [];
  const large: number[] = [];
  const floor: number[] = [];
  const smallCpu: number[] = [];
  const floorCpu: number[] = [];
  for (let round = 1; round <= 3; round += 1) {
    console.error(`start, round ${round} of 3`);
    for (const [settings, into] of [
      [one, small],
      [many, large],
    ] as const) {
      const gateway = await bench.gatewayWith(settings);
      if (gateway === null) continue;
      into.push(gateway.readyMs);
      if (settings === one) smallCpu.push(cpuMicroseconds(gateway.pid) / 1000);
      await gateway.stop();
    }
    const reference = await bench.fresh("floor");
    if (reference === null) continue;
    floor.push(reference.readyMs);
    floorCpu.push(cpuMicroseconds(reference.pid) / 1000);
    await reference.stop();
  }
  return [
    {
      bar: "P12",
      measure: "start to ready, one key and one channel",
      unit: "ms",
      raw: { floor, gateway: small },
      judgement: judged("gateway", median(small), { limit: 500, sense: "at most" }),
    },
    {
      bar: "P12",
      measure: "start to ready, 10,000 keys and 100 channels",
      unit: "ms",
      raw: { gateway: large },
      judgement: judged("gateway", median(large), { limit: 2000, sense: "at most" }),
    },
    {
      bar: "",
      measure: "CPU from start to ready, one key and one channel",
      unit: "ms",
      raw: { floor: floorCpu, gateway: smallCpu },
      judgement: compared("gateway/floor", medianRatio(smallCpu, floorCpu)),
    },
  ] satisfies Row[];
};
