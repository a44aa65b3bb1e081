import { join } from "node:path";
import { shownAs } from "../../src/http/errors.ts";
import { CallMetrics } from "../../src/telemetry/metrics/call-metrics.ts";
import { exposition } from "../../src/telemetry/metrics/exposition.ts";
import { MetricRegistry } from "../../src/telemetry/metrics/registry.ts";
import { budgetFamilies, stateFamilies } from "../../src/telemetry/metrics/state-metrics.ts";
import { OtlpExporter } from "../../src/telemetry/otlp/otlp-exporter.ts";
import { signatureHeaders } from "../../src/telemetry/webhooks/webhook-sender.ts";
import { attempt, callRecord, failedAttempt, receiptFor } from "../support/call-records.ts";
import { gatewayState, otlpPorts, otlpSettings } from "../support/telemetry.ts";

/** Writes what telemetry says of a few calls into a folder, for the parsers that others have published. */
const [folder = "."] = process.argv.slice(2);
const calls = new CallMetrics(new MetricRegistry(), true, (failure) => shownAs(failure).code);
const ports = otlpPorts(undefined, { families: () => [...calls.registry.collect(), ...stateFamilies(gatewayState)] });
const exporter = new OtlpExporter(otlpSettings(), ports);
const trace = {
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  spanId: "00f067aa0ba902b7",
  parentId: "1111111111111111",
  sampled: true,
  state: "vendor=1",
  passedOn: true,
  path: "/v1/chat/completions",
};
for (const model of ["large", 'quote " backslash \\ newline \n end', "\u{1f600}"]) {
  const attempts = [
    failedAttempt("overloaded", { spanId: "2222222222222222" }),
    attempt({ channel: "two", spanId: "3333333333333333", startedMs: 1_100, tookMs: 800 }),
  ];
  const record = callRecord(attempts, { trace, model });
  calls.observe(record, receiptFor(record));
  exporter.observe(record, receiptFor(record));
}
await exporter.stop();
const budgets = budgetFamilies([
  { of: "key", id: "a", name: "laptop", models: "", limitNanos: 1e9, spentNanos: 1e8, isRefusing: false, sinceMs: null },
]);
await Bun.write(
  join(folder, "metrics.txt"),
  exposition([...calls.registry.collect(), ...stateFamilies(gatewayState), ...budgets, ...exporter.families()]),
);
for (const { url, body } of ports.requests) await Bun.write(join(folder, `${url.split("/").at(-1)}.json`), body);
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const body = '{"type":"cost.jump"}';
const headers = signatureHeaders({ id: "msg_1", seconds: Math.floor(Date.now() / 1000), body }, secret);
await Bun.write(join(folder, "webhook.json"), JSON.stringify({ secret, body, headers }));
