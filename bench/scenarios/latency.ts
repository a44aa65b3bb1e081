import { ask } from "../ask.ts";
import { interleaved, type Rounds, type Scenario } from "../bench.ts";
import { answeredLoop } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { medianDifference, quantile } from "../statistics.ts";

/** What a caller waits longer for having a gateway in between (P4). */
export const latency: Scenario = async (bench) => {
  const { options } = bench;
  const seconds = Math.ceil(options.seconds / 2);
  // A gateway runs for weeks; the first thousands of calls of a process measure its compiler.
  await interleaved(
    bench,
    { title: "latency warm-up", targets: ["direct", "floor", "gateway"], rounds: 1, measures: [] },
    async (target) => {
      await answeredLoop(target, ask("json"), { perSecond: 400, seconds: options.quick ? 1 : 10 });
      await answeredLoop(target, ask("burst"), { perSecond: 200, seconds: options.quick ? 1 : 10 });
      return {};
    },
  );
  const measured = await interleaved(
    bench,
    {
      title: "latency",
      targets: ["direct", "nginx", "floor", "gateway", "peer"],
      rounds: Math.max(2, options.rounds - 1),
      referenceRounds: 1,
      measures: ["whole", "firstBusy", "firstQuiet", "gap"],
    },
    async (target) => {
      // Five milliseconds apart, an answer is back before the next request leaves: one at a time, but by the clock.
      const plain = await answeredLoop(target, ask("json"), { perSecond: 200, seconds });
      const short = await answeredLoop(target, ask("paced", 2), { perSecond: 200, seconds });
      // Forty milliseconds apart nothing of the code that is to run is left in a cache: the same call takes several times as long. The
      // streams of the first second open a connection each, on both sides, so that it goes on for three times as long.
      const streams = await answeredLoop(target, ask("paced", 20), { perSecond: 25, seconds: 3 * seconds });
      return {
        whole: quantile(plain.wholeMs, 0.5),
        firstBusy: quantile(short.firstMs, 0.5),
        firstQuiet: quantile(streams.firstMs, 0.5),
        gap: quantile(streams.gapsMs, 0.99),
      };
    },
  );
  return [
    row("time to a JSON answer, p50", measured.whole, 0.5),
    row("first token, 200 streams a second, p50", measured.firstBusy, 0.5),
    coldRow("first token, 25 streams a second, p50", measured.firstQuiet),
    row("time between tokens, p99", measured.gap, 5),
  ];
};

function row(measure: string, raw: Rounds, limit: number): Row {
  return { bar: "P4", measure, unit: "ms", raw, judgement: judged(difference, added(raw), { limit, sense: "at most" }) };
}

/**
 * A harder line of our own, without a bar: the bar's other line is of one request after the other, in which nothing grows cold, and
 * here the floor alone takes most of what it allows. What it costs is to be seen all the same.
 */
function coldRow(measure: string, raw: Rounds): Row {
  return { bar: "", measure, unit: "ms", raw, judgement: compared(difference, added(raw)) };
}

const difference = "gateway - direct";

function added({ gateway = [], direct = [] }: Rounds): number {
  return medianDifference(gateway, direct);
}
