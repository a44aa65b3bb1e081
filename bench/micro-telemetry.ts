import { CallMetrics } from "../src/telemetry/metrics/call-metrics.ts";
import { MetricRegistry } from "../src/telemetry/metrics/registry.ts";
import { attempt, callRecord, failedAttempt, receiptFor } from "../test/support/call-records.ts";

/** What telemetry costs per call: microseconds of one core, without any network. It is to stay below two. */
function measure(name: string, step: (at: number) => unknown): void {
  const times = 200_000;
  let best = Infinity;
  for (let round = 0; round < 5; round++) {
    const began = process.cpuUsage();
    for (let at = 0; at < times; at++) step(at);
    const { user, system } = process.cpuUsage(began);
    best = Math.min(best, (user + system) / times);
  }
  console.log(`${name.padEnd(60)} ${best.toFixed(3)} us`);
}

const settled = (models: number) =>
  Array.from({ length: models }, (_, at) => {
    const record = callRecord([attempt({ channel: `channel-${at % 10}` })], { model: `model-${at}`, keyId: `key-${at}` });
    return { record, receipt: receiptFor(record) };
  });
const one = settled(1);
const many = settled(200);
const failover = (() => {
  const record = callRecord([failedAttempt("overloaded"), attempt({ channel: "two" })]);
  return { record, receipt: receiptFor(record) };
})();

const plain = new CallMetrics(new MetricRegistry(), false);
const withKeys = new CallMetrics(new MetricRegistry(), true);
measure("metrics of a streamed call", () => plain.observe(one[0]!.record, one[0]!.receipt));
measure("the same, of 200 models in turn", (at) => plain.observe(many[at % 200]!.record, many[at % 200]!.receipt));
measure("the same, with labels for keys", (at) => withKeys.observe(many[at % 200]!.record, many[at % 200]!.receipt));
measure("metrics of a call with a failover", () => plain.observe(failover.record, failover.receipt));
