import type { MetricFamily, MetricSeries } from "./family.ts";

/** The media type of the text format of Prometheus. */
export const expositionType = "text/plain; version=0.0.4; charset=utf-8";

/** Metrics in the text format of Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats/). */
export function exposition(families: readonly MetricFamily[]): string {
  const lines: string[] = [];
  for (const family of families) {
    if (family.series.length === 0) continue;
    lines.push(`# HELP ${family.name} ${escapedHelp(family.help)}`, `# TYPE ${family.name} ${family.type}`);
    for (const one of family.series) {
      if (family.type === "histogram") histogramLines(family, one, lines);
      else lines.push(`${family.name}${labelText(family.labels, one.labels)} ${numberText(one.value)}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

/** The buckets of this format are cumulative. */
function histogramLines({ name, labels, bounds = [] }: MetricFamily, one: MetricSeries, lines: string[]): void {
  const { buckets = [] } = one;
  let count = 0;
  for (const [at, bound] of [...bounds, Infinity].entries()) {
    count += buckets[at] ?? 0;
    lines.push(`${name}_bucket${labelText([...labels, "le"], [...one.labels, numberText(bound)])} ${count}`);
  }
  lines.push(
    `${name}_sum${labelText(labels, one.labels)} ${numberText(one.value)}`,
    `${name}_count${labelText(labels, one.labels)} ${count}`,
  );
}

function labelText(names: readonly string[], values: readonly string[]): string {
  if (names.length === 0) return "";
  return `{${names.map((name, at) => `${name}="${escapedLabel(values[at] ?? "")}"`).join(",")}}`;
}

function escapedLabel(text: string): string {
  return text.toWellFormed().replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function escapedHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function numberText(value: number): string {
  if (value === Infinity) return "+Inf";
  if (value === -Infinity) return "-Inf";
  return String(value);
}
