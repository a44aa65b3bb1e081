import { TraceSampler, type TraceRules } from "../../gateway/trace.ts";
import type { OtelSettings, Settings } from "../../config/settings.ts";
import { joinedFamilies, type MetricFamily, type MetricSeries } from "../../telemetry/metrics/family.ts";
import { OtlpExporter, type OtlpPorts } from "../../telemetry/otlp/otlp-exporter.ts";
import { SettledCalls, type CallObserver } from "../../telemetry/settled-calls.ts";

export interface CallTelemetryOptions {
  readonly ports: OtlpPorts;
  /** Counts a call for the metrics of this process. */
  readonly count: CallObserver;
  /** Is told of each call at once; null without the admin API. */
  readonly live: CallObserver | null;
  /** Counting or exporting failed for so many calls. */
  readonly onBug: (error: unknown, calls: number) => void;
}

/** What looks at settled calls: the metrics of this process, and the export of traces and metrics, which follows the configuration. */
export class CallTelemetry {
  private exporter: OtlpExporter | null = null;
  /** Those of earlier configurations that still send what they have. */
  private readonly retiring = new Map<OtlpExporter, Promise<void>>();
  /** What those counted that have ended. */
  private ended: readonly MetricFamily[] = [];
  private otel: OtelSettings | null = null;
  private isStarted = false;
  private counts = false;
  private traces: TraceRules | null = null;
  private readonly settledCalls: SettledCalls;

  constructor(private readonly options: CallTelemetryOptions) {
    const { ports, count, onBug } = options;
    const observers: CallObserver[] = [
      (record, receipt) => {
        if (this.counts) count(record, receipt);
      },
      (record, receipt) => this.exporter?.observe(record, receipt),
    ];
    this.settledCalls = new SettledCalls(observers, (ms, then) => void ports.after(ms, then), onBug);
  }

  /** Called once for each call, when it is settled. */
  readonly observe: CallObserver = (record, receipt) => {
    this.options.live?.(record, receipt);
    if (this.counts || this.exporter !== null) this.settledCalls.observe(record, receipt);
  };

  /** How calls are traced; null if they are not. */
  readonly traceRules = (): TraceRules | null => this.traces;

  /** Whether calls are counted. */
  get isCounting(): boolean {
    return this.counts;
  }

  /**
   * Calls that were settled before belong to what was configured when they were. What the old collector did not get yet is still sent to it,
   * as long as it would have been tried without the change.
   */
  configure({ metrics, otel }: Pick<Settings, "metrics" | "otel">): void {
    this.flush();
    // For an export as well, even if nobody may scrape them.
    this.counts = metrics.enabled || otel?.metrics === true;
    if (JSON.stringify(otel) === JSON.stringify(this.otel)) return;
    const { ports } = this.options;
    const goesOn = sendingOf(otel) === sendingOf(this.otel);
    this.otel = otel;
    this.traces =
      otel?.traces === true ? { sampler: new TraceSampler(otel.share, otel.tracesPerSecond, ports.dice), passedOn: otel.propagate } : null;
    if (goesOn && otel !== null) {
      this.exporter?.resample(otel);
      return;
    }
    if (this.exporter !== null) this.retire(this.exporter);
    this.exporter = otel === null ? null : new OtlpExporter(otel, ports);
    if (this.isStarted) this.exporter?.start();
  }

  private retire(exporter: OtlpExporter): void {
    const retired = exporter.drain().finally(() => {
      this.retiring.delete(exporter);
      this.ended = summed([this.ended, exporter.families()]);
    });
    this.retiring.set(exporter, retired);
  }

  /** Begins to export. */
  start(): void {
    this.isStarted = true;
    this.exporter?.start();
  }

  /** Hands calls that wait to those who look at them. */
  flush(): void {
    this.settledCalls.flush();
  }

  /** Sends what is left, once. */
  async stop(): Promise<void> {
    this.flush();
    const retiring = [...this.retiring].flatMap(([exporter, retired]) => [exporter.stop(), retired]);
    await Promise.all([...retiring, this.exporter?.stop()]);
  }

  /** Gives up what collectors do not have yet: the process ends and waits no longer. */
  abandon(): void {
    this.flush();
    for (const exporter of this.retiring.keys()) exporter.abandon();
    this.exporter?.abandon();
  }

  /** How the export itself goes, since the start: exporters follow one another, and what they lose at their end counts as well. */
  families(): readonly MetricFamily[] {
    const exporters = [...this.retiring.keys(), ...(this.exporter === null ? [] : [this.exporter])];
    return summed([this.ended, ...exporters.map((exporter) => exporter.families())]);
  }
}

/** The settings that say where and how something is sent, and not which calls are. */
function sendingOf(otel: OtelSettings | null): string {
  return JSON.stringify(otel === null ? null : { ...otel, share: 0, tracesPerSecond: 0, slowMs: 0, propagate: false });
}

/** The counters of several exporters as those of one. */
function summed(lists: readonly (readonly MetricFamily[])[]): readonly MetricFamily[] {
  return joinedFamilies(lists).map((family) => {
    const sums = new Map<string, MetricSeries>();
    for (const one of family.series) {
      const label = one.labels.join();
      sums.set(label, { labels: one.labels, value: one.value + (sums.get(label)?.value ?? 0) });
    }
    return { ...family, series: [...sums.values()] };
  });
}
