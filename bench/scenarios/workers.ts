import { availableParallelism } from "node:os";
import { ask } from "../ask.ts";
import { cpuOf, inTurns, type Bench, type Scenario } from "../bench.ts";
import { familyOf } from "../cpu.ts";
import { oneChannel, type Gateway } from "../gateway.ts";
import { answeredLoop, closedLoop } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { medianRatio } from "../statistics.ts";

/**
 * How much more four workers serve than one. Where there are cores for them, for the upstream and for the clients, by calls per second.
 * Elsewhere it is simulated on one core that is not full: each worker gets as many calls a second, and what a call costs in CPU time says
 * what four cores would give. With the same calls for all of them together, what a worker does every second would be spread over a fourth
 * of the calls. Not simulated is waiting for one another, of which there is none but in the store.
 */
export const workers: Scenario = async (bench) => {
  if (Bun.which("taskset") === null) throw new Error("taskset is not on the PATH, and without it nothing can be pinned");
  const isMeasured = availableParallelism() >= 2 * count;
  const last = availableParallelism() - 1;
  const one = await gatewayOn(bench, 1, isMeasured ? "0" : String(last));
  const four = await gatewayOn(bench, count, isMeasured ? `0-${count - 1}` : String(last));
  if (one === null || four === null) return [];
  const variants = { one, four };
  const { options } = bench;
  await inTurns({ title: "workers, warm-up", rounds: 1, variants }, async (target, name) => {
    // On one core, four need four times as long until each has reached its stride.
    const share = name === "four" && !isMeasured ? count : 1;
    await closedLoop(target, ask("json"), { connections: 64, seconds: share * (options.quick ? 1 : 4) });
    return 0;
  });
  const turns = { title: "one worker and four", rounds: 2 * options.rounds, variants };
  const seconds = Math.ceil(options.seconds / 2);
  const measured = await inTurns(turns, async (target, name) => {
    if (isMeasured) {
      const result = await closedLoop(target, ask("json"), { connections: 64, seconds });
      return result.requests / result.seconds;
    }
    const perSecond = perWorkerSecond * (name === "four" ? count : 1);
    const { allMicros, result } = await cpuOf(target, () => answeredLoop(target, ask("json"), { perSecond, seconds }));
    return allMicros / result.requests;
  });
  await Promise.all([one.stop(), four.stop()]);
  const { one: ofOne, four: ofFour } = measured;
  const scaling = isMeasured ? medianRatio(ofFour, ofOne) : count * medianRatio(ofOne, ofFour);
  return [
    {
      bar: "",
      measure: isMeasured ? "calls per second of four workers on four cores" : "CPU per call of four workers (simulated)",
      unit: isMeasured ? "1/s" : "us",
      raw: { gateway: ofFour },
      judgement: judged(isMeasured ? "four/one" : "4 x one/four, simulated", scaling, { limit: 3.4, sense: "at least" }),
    },
    {
      bar: "",
      measure: isMeasured ? "calls per second of one worker on one core" : "CPU per call of one worker (simulated)",
      unit: isMeasured ? "1/s" : "us",
      raw: { gateway: ofOne },
      judgement: { kind: "unjudged", because: "compared above" },
    },
  ] satisfies Row[];
};

/** With a limit that is never reached, because limits are what workers share. */
async function gatewayOn(bench: Bench, number: number, cores: string): Promise<Gateway | null> {
  const gateway = await bench.gatewayWith({ ...oneChannel(bench.upstream), workers: number, cores, limits: { rpm: 100_000_000 } });
  if (gateway === null) return null;
  // The others start after the first; their parent is one more.
  for (let look = 0; look < 200 && number > 1 && familyOf(gateway.pid).length < number + 1; look += 1) await Bun.sleep(100);
  return gateway;
}

const count = 4;
/** Four times as many leave the core half idle. */
const perWorkerSecond = 250;
