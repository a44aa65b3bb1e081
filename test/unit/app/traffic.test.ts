import { expect, test } from "bun:test";
import { Traffic } from "../../../src/app/telemetry/traffic.ts";
import type { MetricFamily } from "../../../src/telemetry/metrics/family.ts";

const inFlight = (value: number): readonly MetricFamily[] => [
  { name: "sluice_in_flight_requests", help: "", type: "gauge", labels: [], series: [{ labels: [], value }] },
];

test("what is not counted any more is not shown, and a reading that was under way then is not of the time after it", async () => {
  const readings = [Promise.withResolvers<readonly MetricFamily[]>(), Promise.withResolvers<readonly MetricFamily[]>()];
  let asked = 0;
  const traffic = new Traffic(
    () => readings[asked++]!.promise,
    () => 1_000,
  );
  const shown = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    return traffic.state();
  };
  traffic.start();
  readings[0]!.resolve(inFlight(3));
  expect(await shown()).toEqual({ inFlight: 3, sinceMs: 1_000 });
  traffic.stop();
  expect(await shown()).toEqual({ inFlight: 0, sinceMs: null });
  traffic.start();
  traffic.stop();
  readings[1]!.resolve(inFlight(5));
  expect([await shown(), traffic.since(0), asked]).toEqual([{ inFlight: 0, sinceMs: null }, [], 2]);
});
