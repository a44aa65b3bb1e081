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
  /** Calls back once after `ms`. The returned function cancels that. */
  readonly after: (ms: number, then: () => void) => () => void;
}

/**
 * Shows the calls of this process as they happen. It looks at the running calls a few times a second, instead of being told of each
 * step: while nobody watches it costs nothing, and while somebody does its cost does not grow with the speed of the streams.
 */
export class LiveFeed {
  private readonly watchers = new Set<(frame: LiveFrame) => void>();
  private ended: LiveCall[] = [];
  private omitted = 0;
  /** What was sent of each running call, so that one that stands still is not sent again. */
  private sent = new Map<string, { readonly mark: string; readonly atMs: number }>();
  private cancelTimer: (() => void) | null = null;

  constructor(private readonly options: LiveFeedOptions) {}

  /** Called for each call when it is settled. */
  readonly observe = (record: CallRecord, receipt: Receipt | null): void => {
    if (this.watchers.size === 0) return;
    if (this.ended.length >= endedMax) this.omitted += 1;
    else this.ended.push(endedCall(record, receipt));
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
      this.ended = [];
      this.sent.clear();
    };
  }

  private readonly look = (): void => {
    this.cancelTimer = this.watchers.size === 0 ? null : this.options.after(everyMs, this.look);
    const frame = this.frame();
    for (const watcher of this.watchers) watcher(frame);
  };

  private frame(): LiveFrame {
    const nowMs = this.options.nowMs();
    const { ended } = this;
    let { omitted } = this;
    this.ended = [];
    this.omitted = 0;
    const calls: LiveCall[] = [...ended];
    const sent: LiveFeed["sent"] = new Map();
    let running = 0;
    for (const one of this.options.running()) {
      running += 1;
      if (sent.size >= runningMax) {
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

/** Changes when an attempt begins, ends or has its first content. */
function markOf({ attempts }: RunningCall): string {
  return attempts.map(({ progress: { outcome, firstContentMs } }) => outcome + (firstContentMs === null ? "" : "!")).join();
}

const firstMs = 20;
const everyMs = 250;
/** How often the figures of a call are sent that has otherwise not changed. */
const refreshMs = 1000;
const watchersMax = 32;
/** More rows than this cannot be read, and would only make the page slow. */
const runningMax = 300;
const endedMax = 300;
