import { expect, test } from "bun:test";
import { exposition } from "../../../../src/telemetry/metrics/exposition.ts";
import { joinedFamilies, ofWorker, plainGauge } from "../../../../src/telemetry/metrics/family.ts";
import { BoundedNames, MetricRegistry } from "../../../../src/telemetry/metrics/registry.ts";
import { parseExposition } from "../../../support/exposition.ts";

test("counters and histograms are shown as the text format has them, with cumulative buckets", () => {
  const registry = new MetricRegistry();
  registry.counters("a_total", "What is counted.", ["kind"]).with("x").value += 2;
  const histogram = registry.histograms("b_seconds", "How long it took.", [], [0.1, 1]).with();
  for (const seconds of [0.1, 0.5, 0.5, 7]) histogram.observe(seconds);
  expect(exposition(registry.collect()).split("\n")).toEqual([
    "# HELP a_total What is counted.",
    "# TYPE a_total counter",
    'a_total{kind="x"} 2',
    "# HELP b_seconds How long it took.",
    "# TYPE b_seconds histogram",
    'b_seconds_bucket{le="0.1"} 1',
    'b_seconds_bucket{le="1"} 3',
    'b_seconds_bucket{le="+Inf"} 4',
    "b_seconds_sum 8.1",
    "b_seconds_count 4",
    "",
  ]);
});

test("money is counted in whole billionths and shown in dollars", () => {
  const registry = new MetricRegistry();
  const counter = registry.counters("cost_usd_total", "Money.", [], 1e-9).with();
  for (let times = 0; times < 10; times += 1) counter.value += 100_000_000;
  expect(exposition(registry.collect())).toContain("\ncost_usd_total 1\n");
});

test("a label may contain anything, and is read back as it was", () => {
  const nasty = ['quote " backslash \\ newline \n end', "\u{1f600} {a=b,c}", "", "\ud800", "}", "\\n"];
  const registry = new MetricRegistry();
  const family = registry.counters("odd_total", 'A "help" with \\ and \n in it.', ["name"]);
  for (const name of nasty) family.with(name).value += 1;
  const [parsed] = parseExposition(exposition(registry.collect()));
  expect(parsed?.help).toBe('A "help" with \\ and \n in it.');
  expect(parsed?.samples.map(({ labels }) => labels["name"])).toEqual(nasty.map((name) => name.toWellFormed()));
});

test("a family without series is left out", () => {
  const registry = new MetricRegistry();
  registry.counters("never_total", "Never.", ["why"]);
  expect(exposition(registry.collect())).toBe("\n");
});

test("series beyond the limit are added up under `other`, and lose nothing", () => {
  const registry = new MetricRegistry();
  const family = registry.counters("many_total", "Many.", ["one", "two"]);
  for (let at = 0; at < 5_000; at += 1) family.with(`n${at}`, "x").value += 1;
  const [parsed] = parseExposition(exposition(registry.collect()));
  expect(parsed?.samples.length).toBe(2_001);
  expect(parsed?.samples.reduce((sum, { value }) => sum + value, 0)).toBe(5_000);
  expect(parsed?.samples.find(({ labels }) => labels["one"] === "other")).toMatchObject({ labels: { two: "other" }, value: 3_000 });
});

test("beyond the limit, labels of few values keep them, and there are not many sums either", () => {
  const registry = new MetricRegistry();
  const family = registry.counters("many_total", "Many.", ["model", "kind"]);
  for (let at = 0; at < 5_000; at += 1) family.with(`model-${at}`, at % 2 === 0 ? "input" : "output").value += 1;
  const sums = () => parseExposition(exposition(registry.collect()))[0]!.samples.filter(({ labels }) => labels["model"] === "other");
  expect(sums().map(({ labels, value }) => [labels["kind"], value])).toEqual([
    ["input", 1_500],
    ["output", 1_500],
  ]);
  for (let at = 0; at < 5_000; at += 1) family.with("model", `kind-${at}`).value += 1;
  family.with("another", "input").value += 1;
  expect(sums()).toHaveLength(501);
  expect(sums()[0]).toMatchObject({ labels: { kind: "input" }, value: 1_501 });
  expect(sums().reduce((sum, { value }) => sum + value, 0)).toBe(8_001);
});

test("names beyond the limit, and names that are too long, count as `other`", () => {
  const names = new BoundedNames(2);
  expect(["a", "b", "c", "a", "x".repeat(201)].map((name) => names.of(name))).toEqual(["a", "b", "other", "a", "other"]);
});

test("the metrics of several workers are one text in which each name is declared once", () => {
  const makeRegistry = (value: number): MetricRegistry => {
    const registry = new MetricRegistry();
    registry.counters("a_total", "A.", ["kind"]).with("x").value += value;
    return registry;
  };
  const lists = [1, 2].map((worker) => ofWorker([...makeRegistry(worker * 10).collect(), plainGauge("g", "G.", worker)], worker));
  const families = parseExposition(exposition(joinedFamilies(lists)));
  expect(families.map(({ name, samples }) => [name, samples.map(({ labels, value }): object => ({ ...labels, value }))])).toEqual([
    [
      "a_total",
      [
        { worker: "1", kind: "x", value: 10 },
        { worker: "2", kind: "x", value: 20 },
      ],
    ],
    [
      "g",
      [
        { worker: "1", value: 1 },
        { worker: "2", value: 2 },
      ],
    ],
  ]);
});
