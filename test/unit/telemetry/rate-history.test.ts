import { describe, expect, test } from "bun:test";
import type { MetricFamily } from "../../../src/telemetry/metrics/family.ts";
import { RateHistory } from "../../../src/telemetry/metrics/rate-history.ts";

function families(complete: number, failed: number, firsts: readonly number[]): readonly MetricFamily[] {
  const labels = ["operation", "model", "status", "outcome", "blame"];
  return [
    {
      name: "sluice_requests_total",
      help: "",
      type: "counter",
      labels,
      series: [
        { labels: ["chat", "m", "200", "complete", "none"], value: complete },
        { labels: ["chat", "m", "502", "failed", "channel"], value: failed },
        { labels: ["speech", "", "401", "refused", "client"], value: 5 },
      ],
    },
    {
      name: "sluice_time_to_first_content_seconds",
      help: "",
      type: "histogram",
      labels: ["operation", "model", "channel"],
      bounds: [0.1, 1],
      series: [{ labels: ["chat", "m", "a"], value: 0, buckets: firsts }],
    },
    { name: "sluice_in_flight_requests", help: "", type: "gauge", labels: [], series: [{ labels: [], value: 3 }] },
  ];
}

describe("the history of rates", () => {
  const minute = 60_000;

  test("has what was added in each minute, and nothing of what was counted before it began", () => {
    const history = new RateHistory();
    history.add(families(100, 10, [50, 0, 0]), 10 * minute);
    history.add(families(110, 11, [50, 4, 0]), 10 * minute + 5_000);
    history.add(families(120, 11, [50, 4, 1]), 11 * minute + 1);
    expect(
      history.since(0).map(({ atMs, calls, failed, refused, firstContents }) => [atMs, calls, failed, refused, firstContents]),
    ).toEqual([
      [10 * minute, 11, 1, 0, [0, 4, 0]],
      [11 * minute, 10, 0, 0, [0, 0, 1]],
    ]);
    expect(history.since(11 * minute)).toHaveLength(1);
    expect(history.since(0)[0]?.byOperation.get("chat")).toEqual({ calls: 11, failed: 1 });
    expect(history.inFlight).toBe(3);
  });

  test("has no negative figures when a worker begins at zero again", () => {
    const history = new RateHistory();
    history.add(families(100, 10, [1, 1, 1]), 0);
    history.add(families(5, 0, [0, 0, 0]), 1000);
    expect(history.since(0)[0]).toMatchObject({ calls: 0, failed: 0, firstContents: [0, 0, 0] });
  });

  test("is kept for a day, and not longer", () => {
    const history = new RateHistory();
    for (let at = 0; at < 2000; at += 1) history.add(families(at, 0, [0, 0, 0]), at * minute);
    expect(history.since(0)).toHaveLength(1440);
  });
});
