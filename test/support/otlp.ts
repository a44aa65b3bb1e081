/**
 * A strict reader of OTLP in JSON: it throws at a field that the protocol has not, and at a value of the wrong type. Written after
 * opentelemetry-proto 1.x (trace.proto, metrics.proto, common.proto) and the rules of its JSON encoding: ids in hexadecimal, 64-bit
 * integers as texts, enumerations as numbers (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
 */
export function readTraces(body: string): readonly ReadSpan[] {
  const spans: ReadSpan[] = [];
  for (const one of messages(message(JSON.parse(body), { resourceSpans: list }), "resourceSpans")) {
    const resource = readResource(message(one, { resource: object, scopeSpans: list }));
    for (const scoped of messages(one, "scopeSpans")) {
      readScope(message(scoped, { scope: object, spans: list }));
      for (const span of messages(scoped, "spans")) spans.push({ ...readSpan(span), resource });
    }
  }
  return spans;
}

export interface ReadSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly name: string;
  readonly kind: number;
  readonly startNanos: bigint;
  readonly endNanos: bigint;
  readonly status: number;
  readonly attributes: Attributes;
  readonly resource: Attributes;
}

export type Attributes = Readonly<Record<string, unknown>>;

export function readMetrics(body: string): readonly ReadMetric[] {
  const metrics: ReadMetric[] = [];
  for (const one of messages(message(JSON.parse(body), { resourceMetrics: list }), "resourceMetrics")) {
    readResource(message(one, { resource: object, scopeMetrics: list }));
    for (const scoped of messages(one, "scopeMetrics")) {
      readScope(message(scoped, { scope: object, metrics: list }));
      for (const metric of messages(scoped, "metrics")) metrics.push(readMetric(metric));
    }
  }
  return metrics;
}

export interface ReadMetric {
  readonly name: string;
  readonly unit: string;
  readonly kind: "sum" | "gauge" | "histogram";
  readonly points: readonly {
    readonly attributes: Attributes;
    readonly value: number;
    readonly count: number;
    /** Of a histogram. */
    readonly bounds?: readonly number[];
  }[];
}

type Fields = Readonly<Record<string, unknown>>;
type Check = (value: unknown) => boolean;

const list: Check = (value) => Array.isArray(value);
const object: Check = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const text: Check = (value) => typeof value === "string";
const int32: Check = (value) => Number.isInteger(value);
const double: Check = (value) => typeof value === "number" && Number.isFinite(value);
const flag: Check = (value) => typeof value === "boolean";
const uint64: Check = (value) => typeof value === "string" && /^\d{1,20}$/.test(value);
const sint64: Check = (value) => typeof value === "string" && /^-?\d{1,19}$/.test(value);
const traceId: Check = (value) => typeof value === "string" && /^[0-9a-f]{32}$/.test(value) && !/^0+$/.test(value);
const spanId: Check = (value) => typeof value === "string" && /^[0-9a-f]{16}$/.test(value) && !/^0+$/.test(value);

function message(value: unknown, fields: Readonly<Record<string, Check>>): Fields {
  if (!object(value)) throw new Error(`no message: ${JSON.stringify(value)}`);
  for (const [name, one] of Object.entries(value as Fields)) {
    const check = fields[name];
    if (check === undefined) throw new Error(`the protocol has no field ${name}`);
    if (!check(one)) throw new Error(`${name} is ${JSON.stringify(one)}`);
  }
  return value as Fields;
}

function messages(of: unknown, name: string): readonly Fields[] {
  return ((of as Fields)[name] ?? []) as readonly Fields[];
}

function readResource({ resource }: Fields): Attributes {
  return readAttributes(message(resource ?? {}, { attributes: list }));
}

function readScope({ scope }: Fields): void {
  message(scope ?? {}, { name: text, version: text });
}

function readAttributes(of: Fields): Attributes {
  const read: Record<string, unknown> = {};
  for (const attribute of messages(of, "attributes")) {
    const { key, value } = message(attribute, { key: text, value: object });
    if (String(key) in read) throw new Error(`the attribute ${String(key)} is there twice`);
    read[String(key)] = readValue(value);
  }
  return read;
}

function readValue(given: unknown): unknown {
  const value = message(given, { stringValue: text, boolValue: flag, intValue: sint64, doubleValue: double, arrayValue: object });
  const [[name, inner] = ["", null], ...more] = Object.entries(value);
  if (more.length > 0 || name === "") throw new Error(`a value has one kind: ${JSON.stringify(given)}`);
  if (name === "intValue") return Number(inner);
  return name === "arrayValue" ? messages(message(inner, { values: list }), "values").map(readValue) : inner;
}

function readSpan(given: Fields): Omit<ReadSpan, "resource"> {
  const span = message(given, {
    traceId,
    spanId,
    parentSpanId: spanId,
    traceState: text,
    flags: int32,
    name: text,
    kind: int32,
    startTimeUnixNano: uint64,
    endTimeUnixNano: uint64,
    attributes: list,
    status: object,
  });
  const { code } = message(span["status"] ?? {}, { code: int32, message: text });
  const [startNanos, endNanos] = [BigInt(String(span["startTimeUnixNano"])), BigInt(String(span["endTimeUnixNano"]))];
  if (endNanos < startNanos) throw new Error("a span ends before it begins");
  return {
    traceId: String(span["traceId"]),
    spanId: String(span["spanId"]),
    parentSpanId: (span["parentSpanId"] as string | undefined) ?? null,
    name: String(span["name"]),
    kind: Number(span["kind"]),
    startNanos,
    endNanos,
    status: Number(code ?? 0),
    attributes: readAttributes(span),
  };
}

function readMetric(given: Fields): ReadMetric {
  const metric = message(given, { name: text, description: text, unit: text, sum: object, gauge: object, histogram: object });
  const kinds = (["sum", "gauge", "histogram"] as const).filter((kind) => kind in metric);
  const [kind = "sum"] = kinds;
  if (kinds.length !== 1) throw new Error(`${String(metric["name"])} has ${kinds.length} kinds of data`);
  const data = message(metric[kind], {
    dataPoints: list,
    ...(kind === "gauge" ? {} : { aggregationTemporality: int32 }),
    ...(kind === "sum" ? { isMonotonic: flag } : {}),
  });
  if (kind !== "gauge" && data["aggregationTemporality"] !== 2) throw new Error("sums are cumulative");
  return {
    name: String(metric["name"]),
    unit: String(metric["unit"]),
    kind,
    points: messages(data, "dataPoints").map((one) => readPoint(one, kind)),
  };
}

function readPoint(given: Fields, kind: ReadMetric["kind"]): ReadMetric["points"][number] {
  const times = { timeUnixNano: uint64, startTimeUnixNano: uint64 };
  if (kind !== "histogram") {
    const point = message(given, { attributes: list, ...times, asDouble: double });
    return { attributes: readAttributes(point), value: Number(point["asDouble"]), count: 1 };
  }
  const point = message(given, { attributes: list, ...times, count: uint64, sum: double, bucketCounts: list, explicitBounds: list });
  const counts = point["bucketCounts"] as readonly string[];
  const bounds = point["explicitBounds"] as readonly number[];
  if (counts.length !== bounds.length + 1) throw new Error("there is one bucket more than bounds");
  if (!counts.every(uint64) || counts.reduce((sum, one) => sum + Number(one), 0) !== Number(point["count"]))
    throw new Error("the buckets are the count");
  return { attributes: readAttributes(point), value: Number(point["sum"]), count: Number(point["count"]), bounds };
}
