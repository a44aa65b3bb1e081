import { ask, models } from "../ask.ts";
import type { Scenario } from "../bench.ts";
import { openLoop } from "../load.ts";
import { judged, type Row } from "../report.ts";

const perSecond = 200;
const windowTenths = 100;

/** Every upstream refuses every call: how many calls the gateway makes of its clients' requests (P14). */
export const storm: Scenario = async (bench) => {
  const seconds = 12;
  const gateway = await bench.gatewayWith({
    channels: bench.upstream.ports.map((port, index) => ({ name: `up-${index}`, port, models: [models.refused] })),
  });
  if (gateway === null) return [];
  console.error(`retry storm, ${perSecond} requests a second for ${seconds} s`);
  const { sentByTenth, statuses } = await openLoop(gateway, ask("refused"), { perSecond, seconds });
  const { callsByTenth } = await bench.upstream.counters();
  await gateway.stop();
  bench.remark(`retry storm: the gateway answered ${JSON.stringify(statuses)}`);

  const factor = worstWindow(sentByTenth, callsByTenth);
  return [
    {
      bar: "P14",
      measure: "upstream calls per client request, all channels failing",
      unit: "in the worst 10 s",
      raw: { gateway: [factor] },
      judgement: judged("gateway", factor, { limit: 1.25, sense: "at most" }),
    },
  ] satisfies Row[];
};

function worstWindow(sent: Readonly<Record<number, number>>, called: Readonly<Record<number, number>>): number {
  const tenths = Object.keys(sent).map(Number);
  const first = Math.min(...tenths);
  const last = Math.max(...tenths);
  let worst = 0;
  for (let start = first; start + windowTenths <= last + 1; start += 1) {
    worst = Math.max(worst, within(called, start) / within(sent, start));
  }
  return worst;
}

function within(counts: Readonly<Record<number, number>>, start: number): number {
  let sum = 0;
  for (let tenth = start; tenth < start + windowTenths; tenth += 1) sum += counts[tenth] ?? 0;
  return sum;
}
