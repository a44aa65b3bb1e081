import type { RunningCall } from "../../gateway/admission/live-calls.ts";
import type { CallRecord } from "../../gateway/settlement/record.ts";
import type { Receipt } from "../../usage/receipt.ts";
import { endedCall, runningCall, type LiveCall } from "./live-call.ts";

/** What happened since the frame before. */
export interface LiveFrame {
  readonly calls: readonly LiveCall[];
  /** How many calls run now. */
  readonly running: number;
  /** Calls that are not in the frame, because more happened than a page could show. */
  readonly omitted: number;
}

export interface LiveFeedOptions {
  readonly running: () => Iterable<RunningCall>;
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  /** Calls back once after `ms`. The returned function cancels that. */
  readonly after: (ms: number, then: () => void) => () => void;
  /** How many workers share what a page can show, and the reports of the others; null if this process is alone. */
  readonly processes: number;
  readonly otherReports: (() => Promise<readonly string[]>) | null;
}

/**
 * Shows the calls of all workers as they happen. It looks at the running calls a few times a second, instead of being told of each
 * step: while nobody watches it costs nothing, and while somebody does its cost does not grow with the speed of the streams. The process
 * that is watched asks the others for what they saw since it asked before, and those that are not asked any more forget it.
 */
export class LiveFeed {
  private readonly watchers = new Set<(frame: LiveFrame) => void>();
  private ended: EndedCall[] = [];
  private omitted = 0;
  /** What was sent of each running call, so that one that stands still is not sent again. */
  private sent = new Map<string, { readonly mark: string; readonly atMs: number }>();
  private cancelTimer: (() => void) | null = null;
  /** Set while another worker asks for reports: when to forget that it did. */
  private cancelReporting: (() => void) | null = null;
  /** What other workers have reported since the frame before. */
  private reported: LiveCall[] = [];
  private reportedOmitted = 0;
  private runningElsewhere = 0;
  private isAsking = false;
  private readonly runningMax: number;
  private readonly endedMax: number;

  constructor(private readonly options: LiveFeedOptions) {
    this.runningMax = Math.ceil(runningMax / options.processes);
    this.endedMax = Math.ceil(endedMax / options.processes);
  }

  /** Called for each call when it is settled. */
  readonly observe = (record: CallRecord, receipt: Receipt | null): void => {
    if (this.watchers.size === 0 && this.cancelReporting === null) return;
    if (this.ended.length >= this.endedMax) this.omitted += 1;
    else this.ended.push({ record, receipt });
  };

  /** Null if too many watch already. The first frame has all running calls. The returned function stops watching. */
  watch(watcher: (frame: LiveFrame) => void): (() => void) | null {
    if (this.watchers.size >= watchersMax) return null;
    this.watchers.add(watcher);
    // Whoever joins needs all running calls; the others get them once more.
    this.sent.clear();
    this.cancelTimer ??= this.options.after(firstMs, this.look);
    return () => {
      this.watchers.delete(watcher);
      if (this.watchers.size > 0) return;
      this.cancelTimer?.();
      this.cancelTimer = null;
      this.forget();
    };
  }

  /** What this worker saw since the last time, for the one that is watched. */
  report(): string {
    this.cancelReporting?.();
    this.cancelReporting = this.options.after(forgetMs, () => {
      this.cancelReporting = null;
      if (this.watchers.size === 0) this.forget();
    });
    const report: LiveReport = { ...this.frame(), clockOffsetMs: this.clockOffsetMs() };
    return JSON.stringify(report);
  }

  private readonly look = (): void => {
    const nextMs = this.ended.length + this.reported.length > crowded ? crowdedEveryMs : everyMs;
    this.cancelTimer = this.watchers.size === 0 ? null : this.options.after(nextMs, this.look);
    const { calls, running, omitted } = this.frame();
    const frame = {
      calls: [...calls, ...this.reported],
      running: running + this.runningElsewhere,
      omitted: omitted + this.reportedOmitted,
    };
    this.reported = [];
    this.reportedOmitted = 0;
    // Awaited by nobody: a worker that hangs must not hold up the calls of the others.
    void this.askOthers();
    for (const watcher of this.watchers) watcher(frame);
  };

  /** The answer is part of the next frame. */
  private async askOthers(): Promise<void> {
    const { otherReports } = this.options;
    if (otherReports === null || this.isAsking) return;
    this.isAsking = true;
    const texts = await otherReports();
    this.isAsking = false;
    if (this.watchers.size === 0) return;
    const reports = texts.map((text) => JSON.parse(text) as LiveReport);
    const offsetMs = this.clockOffsetMs();
    this.runningElsewhere = reports.reduce((sum, { running }) => sum + running, 0);
    this.reportedOmitted = reports.reduce((sum, { omitted }) => sum + omitted, 0);
    this.reported = reports.flatMap(({ calls, clockOffsetMs }) =>
      calls.map((call) => ({ ...call, startedMs: call.startedMs + clockOffsetMs - offsetMs })),
    );
  }

  /** Each process has a monotonic clock of its own. */
  private clockOffsetMs(): number {
    return this.options.wallMs() - this.options.nowMs();
  }

  private forget(): void {
    this.ended = [];
    this.omitted = 0;
    this.reported = [];
    this.reportedOmitted = 0;
    this.runningElsewhere = 0;
    this.sent.clear();
  }

  private frame(): LiveFrame {
    const nowMs = this.options.nowMs();
    const { ended } = this;
    let { omitted } = this;
    this.ended = [];
    this.omitted = 0;
    // Only here, so that a call that ends is remembered and nothing more is done for it.
    const calls = ended.map(({ record, receipt }) => endedCall(record, receipt));
    const sent: LiveFeed["sent"] = new Map();
    let running = 0;
    for (const one of this.options.running()) {
      running += 1;
      if (sent.size >= this.runningMax) {
        omitted += 1;
        continue;
      }
      const { id } = one.admission;
      const before = this.sent.get(id);
      const mark = markOf(one);
      if (before !== undefined && before.mark === mark && nowMs - before.atMs < refreshMs) {
        sent.set(id, before);
        continue;
      }
      sent.set(id, { mark, atMs: nowMs });
      calls.push(runningCall(one, nowMs));
    }
    this.sent = sent;
    return { calls, running, omitted };
  }
}

interface EndedCall {
  readonly record: CallRecord;
  readonly receipt: Receipt | null;
}

/** A frame of another worker. */
interface LiveReport extends LiveFrame {
  /** From its monotonic clock to the wall clock. */
  readonly clockOffsetMs: number;
}

/** Changes when an attempt begins, ends or has its first content. */
function markOf({ attempts }: RunningCall): string {
  return attempts.map(({ progress: { outcome, firstContentMs } }) => outcome + (firstContentMs === null ? "" : "!")).join();
}

const firstMs = 20;
const everyMs = 250;
/** After a frame in which more calls ended than anybody can follow, the next one takes its time. */
const crowded = 25;
const crowdedEveryMs = 500;
/** How often the figures of a call are sent that has otherwise not changed. */
const refreshMs = 1000;
/** A worker that is not asked for so long need not remember calls any more. */
const forgetMs = 3000;
const watchersMax = 32;
/** More rows than this, of all workers, cannot be read, and would only make the page slow. */
const runningMax = 300;
const endedMax = 300;
