import type { FirstContentTimes, TrafficFigures, TrafficHistory } from "../admin/services.ts";
import type { MetricFamily } from "../telemetry/metrics/family.ts";
import { quantile, RateHistory } from "../telemetry/metrics/rate-history.ts";

/** Reads the counters of all workers a few times a minute, for the overview. */
export class Traffic implements TrafficHistory {
  private readonly history = new RateHistory();
  private sinceMs: number | null = null;
  private timer: ReturnType<typeof setInterval> | null = null;
  private reading = false;

  constructor(
    private readonly families: () => Promise<readonly MetricFamily[]>,
    private readonly wallMs: () => number,
  ) {}

  start(): void {
    this.sinceMs = this.wallMs();
    void this.read();
    this.timer = setInterval(() => void this.read(), everyMs);
    this.timer.unref();
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  since(wallMs: number): readonly TrafficFigures[] {
    return this.history.since(wallMs);
  }

  state(): { readonly inFlight: number; readonly sinceMs: number | null } {
    return { inFlight: this.history.inFlight, sinceMs: this.sinceMs };
  }

  firstContent(wallMs: number): FirstContentTimes | null {
    const { bounds } = this.history;
    const minutes = this.history.since(wallMs);
    const buckets = [...bounds, Infinity].map((_, at) => minutes.reduce((sum, { firstContents }) => sum + (firstContents[at] ?? 0), 0));
    const ms = (share: number): number => Math.round((quantile(bounds, buckets, share) ?? 0) * 1000);
    const streams = buckets.reduce((sum, value) => sum + value, 0);
    return streams === 0 ? null : { p50_ms: ms(0.5), p95_ms: ms(0.95), p99_ms: ms(0.99), streams };
  }

  private async read(): Promise<void> {
    if (this.reading) return;
    this.reading = true;
    try {
      this.history.add(await this.families(), this.wallMs());
    } finally {
      this.reading = false;
    }
  }
}

const everyMs = 5_000;
