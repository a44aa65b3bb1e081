import { join } from "node:path";
import { shownAs } from "../../src/http/errors.ts";
import { failure } from "../../src/operations/failure.ts";
import { operations } from "../../src/operations/operation.ts";
import type { MeteredUsage } from "../../src/operations/usage.ts";
import { CallMetrics } from "../../src/telemetry/metrics/call-metrics.ts";
import { exposition } from "../../src/telemetry/metrics/exposition.ts";
import { MetricRegistry } from "../../src/telemetry/metrics/registry.ts";
import { budgetFamilies, stateFamilies } from "../../src/telemetry/metrics/state-metrics.ts";
import { genAiVersions, type GenAiVersion } from "../../src/telemetry/otlp/conventions.ts";
import { OtlpExporter } from "../../src/telemetry/otlp/otlp-exporter.ts";
import { signatureHeaders } from "../../src/telemetry/webhooks/webhook-sender.ts";
import { attempt, callRecord, failedAttempt, receiptFor } from "../support/call-records.ts";
import { gatewayState, otlpPorts, otlpSettings, type OtlpTestPorts } from "../support/telemetry.ts";

/** Writes what telemetry says of a few calls into a folder, for the parsers that others have published. */
const [folder = "."] = process.argv.slice(2);
const calls = new CallMetrics(new MetricRegistry(), true, (cause) => shownAs(cause).code);
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

/** One call of each kind that has names of its own, in every version of the conventions. */
async function exportedAs(conventions: GenAiVersion): Promise<OtlpTestPorts> {
  const ports = otlpPorts(undefined, { families: () => calls.registry.collect() });
  const exporter = new OtlpExporter(otlpSettings({ conventions }), ports);
  const usage: MeteredUsage = { ...attempt().usage!, cacheWriteTokens: 5, servedModel: "large-2" };
  const failed = failedAttempt("overloaded", { spanId: "2222222222222222", failure: failure("overloaded", "busy", { status: 503 }) });
  const answered = attempt({ channel: "two", spanId: "3333333333333333", startedMs: 1_100, tookMs: 800, usage });
  for (const operation of operations) {
    const stream = operation === "chat" || operation === "speech";
    const record = callRecord([failed, answered], { trace, operation, stream });
    exporter.observe(record, receiptFor(record));
  }
  await exporter.stop();
  return ports;
}

for (const version of genAiVersions)
  for (const { url, body } of (await exportedAs(version)).requests)
    await Bun.write(join(folder, `${url.split("/").at(-1)}-${version}.json`), body);

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
