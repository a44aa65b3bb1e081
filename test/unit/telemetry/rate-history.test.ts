import { describe, expect, test } from "bun:test";
import { joinedFamilies, ofWorker, plainGauge, type MetricFamily } from "../../../src/telemetry/metrics/family.ts";
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

  test("counts a process that begins at zero again from there", () => {
    const history = new RateHistory();
    history.add(families(100, 10, [1, 1, 1]), 0);
    history.add(families(5, 0, [0, 2, 0]), 1000);
    expect(history.since(0)[0]).toMatchObject({ calls: 5, failed: 0, firstContents: [0, 2, 0] });
    expect(history.since(0)[0]?.byOperation.get("chat")).toEqual({ calls: 5, failed: 0 });
  });

  test("is kept for a day, and not longer", () => {
    const history = new RateHistory();
    for (let at = 0; at < 2000; at += 1) history.add(families(at, 0, [0, 0, 0]), at * minute);
    expect(history.since(0)).toHaveLength(1440);
  });

  describe("of several workers", () => {
    /** A round of reports: what each worker has counted, and when it started. */
    const round = (...reports: readonly (readonly [worker: number, calls: number, startedMs?: number])[]): readonly MetricFamily[] =>
      joinedFamilies(
        reports.map(([worker, calls, startedMs = 0]) =>
          ofWorker([...families(calls, 0, [calls, 0, 0]), plainGauge("process_start_time_seconds", "", startedMs / 1000)], worker),
        ),
      );
    const calls = (history: RateHistory): readonly number[] => history.since(0).map((minute) => minute.calls);

    test("has nothing twice and loses nothing when a worker is left out of a round", () => {
      const history = new RateHistory();
      history.add(round([1, 1_000], [2, 5_000]), 0);
      history.add(round([1, 1_010], [2, 5_020]), minute);
      history.add(round([1, 1_013]), 2 * minute);
      history.add(round([1, 1_014], [2, 5_027]), 3 * minute);
      expect(calls(history)).toEqual([30, 3, 8]);
      expect(history.since(0).map(({ firstContents }) => firstContents[0])).toEqual([30, 3, 8]);
      expect(history.since(3 * minute)[0]?.byOperation.get("chat")).toEqual({ calls: 8, failed: 0 });
    });

    test("counts a worker that was restarted from zero, also where it has counted more since than before", () => {
      const history = new RateHistory();
      history.add(round([1, 100], [2, 50]), 0);
      history.add(round([1, 110], [2, 7, minute]), minute);
      history.add(round([1, 115], [2, 9, 2 * minute]), 2 * minute);
      expect(calls(history)).toEqual([17, 14]);
    });

    test("counts all of a worker that begins later, and nothing from before of one that only reports later", () => {
      const history = new RateHistory();
      history.add(round([1, 100, 9 * minute]), 10 * minute);
      history.add(round([1, 101, 9 * minute], [2, 6, 10 * minute], [3, 70_000, 2 * minute]), 11 * minute);
      history.add(round([1, 101, 9 * minute], [2, 8, 10 * minute], [3, 70_004, 2 * minute]), 12 * minute);
      expect(calls(history)).toEqual([7, 6]);
    });

    test("forgets workers that are gone for good once there are very many, and never those that report", () => {
      const history = new RateHistory();
      for (let at = 0; at < 3_000; at += 1) history.add(round([1, 100 + at], [at + 2, 5]), at);
      history.add(round([1, 3_100], [2, 5]), minute);
      expect(calls(history)).toEqual([2_999 + 2_999 * 5, 1 + 5]);
    });
  });
});
