import { expect, test } from "bun:test";
import { shownAs } from "../../../../src/http/errors.ts";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.ts";
import { MetricRegistry } from "../../../../src/telemetry/metrics/registry.ts";
import { budgetFamilies, stateFamilies } from "../../../../src/telemetry/metrics/state-metrics.ts";
import { unitOf } from "../../../../src/telemetry/otlp/metric-data.ts";
import { gatewayState } from "../../../support/telemetry.ts";

/** What a collector that writes for Prometheus adds to a name for a unit, if it is not there already. */
const suffixes: Readonly<Record<string, string>> = { s: "seconds", By: "bytes", "1": "ratio" };

test("a metric that comes by way of a collector has the same name as in a scrape", () => {
  const families = [
    ...new CallMetrics(new MetricRegistry(), true, (failure) => shownAs(failure).code).registry.collect(),
    ...stateFamilies(gatewayState),
    ...budgetFamilies([]),
  ];
  expect(families.length).toBeGreaterThan(40);
  for (const { name, type } of families) {
    const suffix = suffixes[unitOf(name)];
    const isAdded = suffix !== undefined && !name.split("_").includes(suffix) && !(suffix === "ratio" && type !== "gauge");
    expect([name, isAdded ? suffix : null]).toEqual([name, null]);
  }
});
