import type { TrafficFigures, TrafficHistory } from "../../admin/services.ts";
import type { MetricFamily } from "../../telemetry/metrics/family.ts";
import { RateHistory } from "../../telemetry/metrics/rate-history.ts";
import { firstContentTimes, type FirstContentTimes } from "../../usage/first-content.ts";

/** Reads the counters of all workers a few times a minute, for the overview. */
export class Traffic implements TrafficHistory {
  private history = new RateHistory();
  private sinceMs: number | null = null;
  private timer: ReturnType<typeof setInterval> | null = null;
  private reading = false;

  constructor(
    private readonly families: () => Promise<readonly MetricFamily[]>,
    private readonly wallMs: () => number,
  ) {}

  start(): void {
    if (this.timer !== null) return;
    this.sinceMs = this.wallMs();
    void this.read();
    this.timer = setInterval(() => void this.read(), everyMs);
    this.timer.unref();
  }

  /** Nothing is counted any more, so that what was counted is of a time that a page would take for the present. */
  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    this.sinceMs = null;
    this.history = new RateHistory();
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
    return firstContentTimes(
      bounds.map((seconds) => seconds * 1000),
      buckets,
    );
  }

  private async read(): Promise<void> {
    if (this.reading) return;
    this.reading = true;
    try {
      // The history is that of the time when this began, also if it ends later.
      this.history.add(await this.families(), this.wallMs());
    } finally {
      this.reading = false;
    }
  }
}

const everyMs = 5_000;
