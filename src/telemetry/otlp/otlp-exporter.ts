import type { CallRecord } from "../../gateway/settlement/record.ts";
import { SpanIds } from "../../gateway/trace.ts";
import type { Receipt } from "../../usage/receipt.ts";
import { abandonedReason, askedWaitMaxMs, DeliveryQueue, endedReason, type DeliveryResult } from "../delivery-queue.ts";
import type { MetricFamily } from "../metrics/family.ts";
import { attributes, type AttributeInput, type OtlpAttribute } from "./attributes.ts";
import type { GenAiVersion } from "./conventions.ts";
import { GenAiMetrics } from "./gen-ai-metrics.ts";
import { metricData } from "./metric-data.ts";
import { exportedFor, spansOf, type TracedCall } from "./spans.ts";

/** How calls are exported to a collector. */
export interface OtlpSettings {
  /** Without `/v1/traces`. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly traces: boolean;
  readonly metrics: boolean;
  readonly serviceName: string;
  readonly conventions: GenAiVersion;
  /** The share of calls that is traced whatever happens. */
  readonly share: number;
  /** A call whose client waited this long is traced in any case. */
  readonly slowMs: number;
  readonly intervalMs: number;
  /** Whether upstreams are told of the trace. */
  readonly propagate: boolean;
}

export interface OtlpPorts {
  /** Sends JSON. Never rejects. */
  readonly post: (url: string, headers: Readonly<Record<string, string>>, body: string) => Promise<PostOutcome>;
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly dice: () => number;
  readonly onLoss: (signal: string, items: number, reason: string) => void;
  /** Of the listener for clients. */
  readonly scheme: "http" | "https";
  /** Whether a channel lists the model that a client asked for. */
  readonly isListed: (model: string) => boolean;
  /** The metrics of this process. */
  readonly families: () => readonly MetricFamily[];
  /** Since when these have been counted. Exporters may follow one another, and their own metrics begin anew. */
  readonly countedFromMs: number;
  readonly resource: Readonly<Record<string, AttributeInput>>;
}

/** A response, or why there was none. */
export interface PostOutcome {
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  readonly body: string;
  readonly reason: string;
}

/**
 * Exports traces and metrics by OTLP over HTTP, as JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp). A settled call is put into a
 * queue, and everything else happens later: a call never waits for a collector, and one that is away costs the traces that do not fit.
 */
export class OtlpExporter {
  private readonly spans: DeliveryQueue<TracedCall>;
  private readonly genAi: GenAiMetrics;
  private readonly spanIds: SpanIds;
  private readonly resource: { readonly attributes: readonly OtlpAttribute[] };
  private readonly startMs: number;
  private disarm: (() => void) | null = null;
  private stopped = false;
  /** How many reports of metrics are on their way. */
  private reporting = 0;
  private abandoned = false;
  private failedMetrics = 0;
  private sentMetrics = 0;

  constructor(
    private settings: OtlpSettings,
    private readonly ports: OtlpPorts,
  ) {
    this.genAi = new GenAiMetrics(settings.conventions, ports.isListed);
    this.spanIds = new SpanIds(ports.dice);
    this.resource = { attributes: attributes({ "service.name": settings.serviceName, ...ports.resource }) };
    this.startMs = ports.wallMs();
    this.spans = new DeliveryQueue<TracedCall>({
      deliver: (calls) => this.deliver("traces", this.traceBody(calls)),
      onLoss: (items, reason) => ports.onLoss("traces", items, reason),
      after: ports.after,
      dice: ports.dice,
      waitingMax,
      batchMax,
      batchMs,
      triesMax,
    });
  }

  start(): void {
    if (this.settings.metrics) this.armMetrics();
  }

  /** Goes on with settings that differ in what is sampled alone. */
  resample(settings: OtlpSettings): void {
    this.settings = settings;
  }

  /** Sends what is left, once. */
  async stop(): Promise<void> {
    await Promise.all([this.spans.stop(endedReason), this.lastMetrics()]);
  }

  /** Takes no more calls, and goes on trying to send those that it has: another exporter follows it. */
  async drain(): Promise<void> {
    await Promise.all([this.spans.drain("the collector was replaced, and did not take them in time"), this.lastMetrics()]);
  }

  private async lastMetrics(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    this.disarm?.();
    if (this.settings.metrics) await this.exportMetrics();
  }

  /** Gives up what is left, also what is on its way: the process ends and waits no longer. */
  abandon(): void {
    if (this.abandoned) return;
    const lastReports = this.settings.metrics && !this.stopped ? 1 : 0;
    this.stopped = true;
    this.abandoned = true;
    this.disarm?.();
    this.spans.abandon();
    if (this.reporting + lastReports > 0) this.lostMetrics(this.reporting + lastReports, abandonedReason);
  }

  /** Called once for each call, when it is settled. */
  readonly observe = (record: CallRecord, receipt: Receipt | null): void => {
    const { settings, ports } = this;
    if (settings.metrics) this.genAi.observe(record);
    const { trace } = record;
    if (!settings.traces || trace === undefined) return;
    const reason = exportedFor(record, trace.sampled, settings.slowMs);
    if (reason === null) return;
    const call = { record, receipt, trace, spanId: this.spanIds.next(), wallOffsetMs: ports.wallMs() - ports.nowMs() };
    this.spans.offer(call, reason === "sample" ? sampledWaitingMax : waitingMax);
  };

  /** How the export itself goes. */
  families(): readonly MetricFamily[] {
    const { spans } = this;
    const series = (values: readonly (readonly [signal: string, value: number])[]) =>
      values.map(([signal, value]) => ({ labels: [signal], value }));
    const counter = (name: string, help: string, values: readonly (readonly [string, number])[]): MetricFamily => ({
      name,
      help,
      type: "counter",
      labels: ["signal"],
      series: series(values),
    });
    return [
      counter("sluice_otlp_exported_total", "Traces and reports of metrics that the collector took.", [
        ["traces", spans.delivered],
        ["metrics", this.sentMetrics],
      ]),
      counter("sluice_otlp_dropped_total", "Traces that did not fit into the queue, or were given up when the gateway ended.", [
        ["traces", spans.dropped],
      ]),
      counter("sluice_otlp_failed_total", "Traces and reports of metrics that the collector did not take.", [
        ["traces", spans.failed],
        ["metrics", this.failedMetrics],
      ]),
    ];
  }

  private traceBody(calls: readonly TracedCall[]): object {
    const spans = calls.flatMap((call) => spansOf(call, this.settings.conventions, this.ports.scheme));
    return { resourceSpans: [{ resource: this.resource, scopeSpans: [{ scope, spans }] }] };
  }

  private armMetrics(askedMs = 0): void {
    // No later than after the longest wait of the queue: a collector must not silence a gateway.
    const afterMs = Math.max(this.settings.intervalMs, Math.min(askedMs, askedWaitMaxMs));
    this.disarm = this.ports.after(afterMs, () => void this.exportMetrics().then((wait) => !this.stopped && this.armMetrics(wait)));
  }

  /** Not repeated: the next report has everything that this one has. Returns how long the collector asked to wait for it. */
  private async exportMetrics(): Promise<number> {
    const { ports, genAi, startMs } = this;
    const nowMs = ports.wallMs();
    const metrics = [
      ...metricData(ports.families(), { startMs: ports.countedFromMs, nowMs }),
      ...metricData(genAi.registry.collect(), { startMs, nowMs }),
    ];
    this.reporting += 1;
    const result = await this.deliver("metrics", { resourceMetrics: [{ resource: this.resource, scopeMetrics: [{ scope, metrics }] }] });
    this.reporting -= 1;
    if (this.abandoned) return 0;
    if (result.kind === "delivered" && result.rejected === 0) {
      this.sentMetrics += 1;
      return 0;
    }
    this.lostMetrics(1, result.reason);
    return result.kind === "retry" ? (result.afterMs ?? 0) : 0;
  }

  private lostMetrics(reports: number, reason: string): void {
    this.failedMetrics += reports;
    this.ports.onLoss("metrics", reports, reason);
  }

  private async deliver(signal: "traces" | "metrics", body: object): Promise<DeliveryResult> {
    const { endpoint, headers } = this.settings;
    const sent = { ...headers, "content-type": "application/json" };
    return deliveryOf(await this.ports.post(`${endpoint}/v1/${signal}`, sent, JSON.stringify(body)));
  }
}

/** Which answers are worth another try is in https://opentelemetry.io/docs/specs/otlp/#failures-1. */
export function deliveryOf({ status, retryAfterMs, body, reason }: PostOutcome): DeliveryResult {
  if (status === null) return { kind: "retry", afterMs: null, reason };
  if (status >= 200 && status < 300) return { kind: "delivered", ...rejectedIn(body) };
  const answered = `the collector answered with ${status}`;
  if (status === 429 || status === 502 || status === 503 || status === 504)
    return { kind: "retry", afterMs: retryAfterMs, reason: answered };
  return { kind: "refused", reason: answered };
}

/** A collector may take a part only, and says how much it did not, and why (https://opentelemetry.io/docs/specs/otlp/#partial-success-1). */
function rejectedIn(body: string): { readonly rejected: number; readonly reason: string } {
  try {
    const { partialSuccess } = JSON.parse(body) as { partialSuccess?: Readonly<Record<string, unknown>> };
    const rejected = Number(partialSuccess?.["rejectedSpans"] ?? partialSuccess?.["rejectedDataPoints"] ?? 0);
    if (!Number.isSafeInteger(rejected) || rejected <= 0) return nothingRejected;
    const message = partialSuccess?.["errorMessage"];
    const words = typeof message === "string" && message !== "" ? `: ${message.slice(0, messageCharactersMax)}` : "";
    return { rejected, reason: `the collector left out ${rejected} of what was sent${words}` };
  } catch {
    return nothingRejected;
  }
}

const nothingRejected = { rejected: 0, reason: "" };
const messageCharactersMax = 200;

const scope = { name: "sluice" };
const waitingMax = 2_048;
/** Clients choose calls without limit: what they choose must leave room for calls that failed or were saved. */
const sampledWaitingMax = 1_536;
const batchMax = 256;
const batchMs = 2_000;
const triesMax = 5;
