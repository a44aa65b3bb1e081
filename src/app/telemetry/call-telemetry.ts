import { TraceSampler, type TraceRules } from "../../gateway/trace.ts";
import type { OtelSettings, Settings } from "../../config/settings.ts";
import type { MetricFamily } from "../../telemetry/metrics/family.ts";
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
  private readonly leaving = new Map<OtlpExporter, Promise<void>>();
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

  /** Calls that were settled before belong to what was configured when they were. What the old collector did not get yet is still sent to it. */
  configure({ metrics, otel }: Pick<Settings, "metrics" | "otel">): void {
    this.flush();
    // For an export as well, even if nobody may scrape them.
    this.counts = metrics.enabled || otel?.metrics === true;
    if (JSON.stringify(otel) === JSON.stringify(this.otel)) return;
    const { ports } = this.options;
    const before = this.exporter;
    this.otel = otel;
    this.exporter = otel === null ? null : new OtlpExporter(otel, ports);
    this.traces =
      otel?.traces === true ? { sampler: new TraceSampler(otel.share, otel.tracesPerSecond, ports.dice), passedOn: otel.propagate } : null;
    if (this.isStarted) this.exporter?.start();
    if (before !== null)
      this.leaving.set(
        before,
        before.stop().finally(() => this.leaving.delete(before)),
      );
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
    await Promise.all([...this.leaving.values(), this.exporter?.stop()]);
  }

  /** Gives up what collectors do not have yet: the process ends and waits no longer. */
  abandon(): void {
    this.flush();
    for (const exporter of this.leaving.keys()) exporter.abandon();
    this.exporter?.abandon();
  }

  /** How the export itself goes. */
  families(): readonly MetricFamily[] {
    return this.exporter?.families() ?? [];
  }
}
