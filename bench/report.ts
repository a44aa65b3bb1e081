import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { arch, cpus, loadavg, platform, release } from "node:os";
import { dirname, join, resolve } from "node:path";
import { wrkVersion } from "./load.ts";
import { nginxVersion } from "./nginx.ts";
import type { ScenarioName } from "./options.ts";
import { peerPackage } from "./peer.ts";
import { median } from "./statistics.ts";
import type { TargetName } from "./target.ts";

/** One line of the report: what was measured on each target, and how the gateway stands to the bar. */
export interface Row {
  /** The bar's number in the reliability bar, or empty for a measurement without a bar. */
  readonly bar: string;
  readonly measure: string;
  readonly unit: string;
  /** One value per round, in the order they were taken. */
  readonly raw: Readonly<Partial<Record<TargetName, readonly number[]>>>;
  readonly judgement: Judgement;
}

export type Judgement =
  | {
      readonly kind: "judged";
      readonly what: string;
      readonly value: number;
      readonly limit: number;
      readonly sense: "at most" | "at least";
    }
  | { readonly kind: "compared"; readonly what: string; readonly value: number }
  | { readonly kind: "unjudged"; readonly because: string };

export interface ScenarioRow extends Row {
  readonly scenario: ScenarioName;
  /** Why nothing may be judged by it; null where nothing disturbed it. */
  readonly disturbance: string | null;
}

/** Figures that have no bar and no targets to be compared between. */
export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly lines: readonly (readonly (string | number)[])[];
}

export interface Surroundings {
  /** Where the numbers are written; null for results/latest.json. */
  readonly results: string | null;
  readonly loadBefore: readonly number[];
  readonly remarks: readonly string[];
  readonly arguments: readonly string[];
  readonly seconds: number;
  readonly scenarioSeconds: Readonly<Partial<Record<ScenarioName, number>>>;
}

/** Judges the gateway if there is a number to judge it by; otherwise says what is missing. */
export function judged(what: string, value: number | null, bar: { limit: number; sense: "at most" | "at least" }): Judgement {
  if (value === null || Number.isNaN(value)) return { kind: "unjudged", because: "not measured" };
  return { kind: "judged", what, value, ...bar };
}

export function compared(what: string, value: number): Judgement {
  return Number.isNaN(value) ? { kind: "unjudged", because: "not measured" } : { kind: "compared", what, value };
}

export function verdict(judgement: Judgement): string {
  switch (judgement.kind) {
    case "judged": {
      const passes = judgement.sense === "at most" ? judgement.value <= judgement.limit : judgement.value >= judgement.limit;
      return passes ? "pass" : "MISS";
    }
    case "compared":
      return "no bar";
    case "unjudged":
      return judgement.because;
  }
}

export function report({ rows, tables }: { rows: readonly ScenarioRow[]; tables: readonly Table[] }, surroundings: Surroundings): string {
  const facts = surroundingFacts(surroundings);
  const file = surroundings.results === null ? join(import.meta.dir, "results/latest.json") : resolve(surroundings.results);
  mkdirSync(dirname(file), { recursive: true });
  const results = { ...facts, rows: rows.map((row) => ({ ...row, verdict: verdict(row.judgement) })), tables };
  writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`);
  return [
    "",
    ...(rows.length === 0 ? [] : [...bars(rows), ""]),
    ...tables.flatMap((table) => [table.title, "", ...lines(table), ""]),
    `CPU      ${facts.cpu}`,
    `load     ${facts.loadBefore.map(shown).join(" ")} before, ${facts.loadAfter.map(shown).join(" ")} after`,
    `versions ${Object.entries(facts.versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", ")}`,
    `took     ${shown(surroundings.seconds)} s`,
    ...surroundings.remarks.map((remark) => `note     ${remark}`),
    "",
  ].join("\n");
}

function surroundingFacts({ loadBefore, remarks, arguments: given, seconds, scenarioSeconds }: Surroundings) {
  return {
    at: new Date().toISOString(),
    arguments: given,
    seconds,
    scenarioSeconds,
    cpu: `${cpus()[0]?.model.trim() ?? "unknown"}, ${cpus().length} cores, ${platform()} ${release()} ${arch()}`,
    loadBefore,
    loadAfter: loadavg(),
    versions: {
      gateway: version(join(import.meta.dir, "..", "package.json")),
      bun: Bun.version,
      nginx: nginxVersion() ?? "absent",
      wrk: wrkVersion() ?? "absent",
      node: Bun.spawnSync(["node", "--version"]).stdout.toString().trim(),
      [peerPackage.name]: peerPackage.version,
    },
    remarks,
  };
}

const targetColumns: readonly TargetName[] = ["direct", "nginx", "floor", "gateway", "peer"];

function bars(rows: readonly Row[]): string[] {
  const cells = [
    ["bar", "measure", ...targetColumns, "judged", "bar", "verdict"],
    ...rows.map((row) => [
      row.bar,
      `${row.measure}, ${row.unit}`,
      ...targetColumns.map((name) => middle(row.raw[name])),
      row.judgement.kind === "unjudged" ? "" : `${row.judgement.what} ${shown(row.judgement.value)}`,
      row.judgement.kind === "judged" ? `${row.judgement.sense} ${shown(row.judgement.limit)}` : "",
      verdict(row.judgement),
    ]),
  ];
  return aligned(cells, (column) => column >= 2 && column < 2 + targetColumns.length);
}

function lines({ columns, lines }: Table): string[] {
  const cells = lines.map((line) => line.map((cell) => (typeof cell === "number" ? shown(cell) : cell)));
  return aligned([columns, ...cells], (column) => typeof lines[0]?.[column] === "number");
}

/** The first line is the head. */
function aligned(cells: readonly (readonly string[])[], numeric: (column: number) => boolean): string[] {
  const widths = (cells[0] ?? []).map((_, column) => Math.max(...cells.map((line) => line[column]?.length ?? 0)));
  const lines = cells.map((line) =>
    line
      .map((cell, column) => (numeric(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  return [lines[0] ?? "", widths.map((width) => "-".repeat(width)).join("  "), ...lines.slice(1)];
}

function middle(values: readonly number[] | undefined): string {
  return values === undefined || values.length === 0 ? "" : shown(median(values));
}

function shown(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

function version(manifest: string): string {
  return (JSON.parse(readFileSync(manifest, "utf8")) as { version: string }).version;
}
