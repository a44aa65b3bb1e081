/**
 * A strict reader of the text format of Prometheus (version 0.0.4): it throws at whatever a scraper may refuse. Written after
 * https://prometheus.io/docs/instrumenting/exposition_formats/, independently of what writes it.
 */
export function parseExposition(text: string): readonly ExposedFamily[] {
  if (!text.endsWith("\n")) throw new Error("the last line has no line feed");
  const families = new Map<string, ExposedFamily>();
  let help: { readonly name: string; readonly text: string } | null = null;
  let current: ExposedFamily | null = null;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$/.exec(line);
    if (comment !== null) {
      const [, kind, name = "", rest = ""] = comment;
      if (kind === "HELP") help = { name, text: unescaped(rest, false) };
      else {
        if (families.has(name)) throw new Error(`${name} is declared twice`);
        if (!["counter", "gauge", "histogram"].includes(rest)) throw new Error(`${name} has the type ${rest}`);
        if (help?.name !== name) throw new Error(`${name} has no help`);
        current = { name, type: rest, help: help.text, samples: [] };
        families.set(name, current);
      }
      continue;
    }
    if (current === null) throw new Error(`a sample before any type: ${line}`);
    current.samples.push(sampleOf(line, current));
  }
  for (const family of families.values()) checkFamily(family);
  return [...families.values()];
}

export interface ExposedFamily {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: ExposedSample[];
}

export interface ExposedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The value of the one sample that has these labels among its own. */
export function valueOf(families: readonly ExposedFamily[], name: string, labels: Readonly<Record<string, string>> = {}): number {
  const samples = families.flatMap((family) => family.samples).filter((sample) => sample.name === name);
  const found = samples.filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value));
  return found.reduce((sum, { value }) => sum + value, 0);
}

function sampleOf(line: string, { name: family, type }: ExposedFamily): ExposedSample {
  const [, name = "", rest = ""] = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(.*)$/.exec(line) ?? [];
  const allowed = type === "histogram" ? [`${family}_bucket`, `${family}_sum`, `${family}_count`] : [family];
  if (!allowed.includes(name)) throw new Error(`${line} does not belong to ${family}`);
  const labels: Record<string, string> = {};
  let left = rest;
  if (left.startsWith("{")) {
    left = left.slice(1);
    while (!left.startsWith("}")) {
      const [whole, label = "", value = ""] = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\[\\"n])*)"/.exec(left) ?? [];
      if (whole === undefined) throw new Error(`a label cannot be read: ${line}`);
      if (label in labels) throw new Error(`a label is given twice: ${line}`);
      labels[label] = unescaped(value, true);
      left = left.slice(whole.length);
      if (left.startsWith(",")) left = left.slice(1);
      else if (!left.startsWith("}")) throw new Error(`no comma between labels: ${line}`);
    }
    left = left.slice(1);
  }
  const [, number = ""] = /^ ([+-]Inf|NaN|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.exec(left) ?? [];
  if (number === "") throw new Error(`no value: ${line}`);
  return { name, labels, value: number.endsWith("Inf") ? (number.startsWith("-") ? -Infinity : Infinity) : Number(number) };
}

function checkFamily({ name, type, samples }: ExposedFamily): void {
  const seen = new Set<string>();
  for (const sample of samples) {
    const key = `${sample.name}${labelKey(sample.labels)}`;
    if (seen.has(key)) throw new Error(`${key} is there twice`);
    seen.add(key);
    if (type !== "gauge" && !(sample.value >= 0)) throw new Error(`${name} counts backwards`);
  }
  if (type === "counter" && !name.endsWith("_total")) throw new Error(`the counter ${name} does not end with _total`);
  if (type === "histogram") checkHistogram(name, samples);
}

function checkHistogram(name: string, samples: readonly ExposedSample[]): void {
  const series = new Map<string, { buckets: [number, number][]; count: number | null; hasSum: boolean }>();
  for (const { name: full, labels, value } of samples) {
    const { le, ...others } = labels;
    const key = labelKey(others);
    const one = series.get(key) ?? { buckets: [], count: null, hasSum: false };
    series.set(key, one);
    if (full === `${name}_bucket`) one.buckets.push([le === "+Inf" ? Infinity : Number(le), value]);
    else if (full === `${name}_count`) one.count = value;
    else one.hasSum = true;
  }
  for (const [key, { buckets, count, hasSum }] of series) {
    if (!hasSum || count === null) throw new Error(`${name}${key} lacks its sum or its count`);
    if (buckets.at(-1)?.[0] !== Infinity || buckets.at(-1)?.[1] !== count)
      throw new Error(`the last bucket of ${name}${key} is not its count`);
    for (const [at, [bound, value]] of buckets.entries()) {
      const [before, fewer] = buckets[at - 1] ?? [-Infinity, 0];
      if (!(bound > before) || value < fewer) throw new Error(`the buckets of ${name}${key} do not rise`);
    }
  }
}

function unescaped(text: string, quoted: boolean): string {
  return text.replaceAll(quoted ? /\\([\\"n])/g : /\\([\\n])/g, (_, character: string) => (character === "n" ? "\n" : character));
}

/** The same text for the same labels, in whatever order they stand. */
function labelKey(labels: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
