/**
 * The log: one JSON object a line. Lines are gathered and written together, because a write for each call costs more
 * than the rest of its bookkeeping. A reader that does not keep up loses lines, counted, and never stops the gateway.
 */
export class Log {
  /** Lines that nobody has taken yet lie between `from` and `to`. */
  private waiting = Buffer.allocUnsafe(gatherBytes);
  private from = 0;
  private to = 0;
  private dropped = 0;
  private timeMs = 0;
  private timeText = "";
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    /** Says how much of it was taken. */
    private readonly write: (bytes: Uint8Array) => number,
    private readonly level: LogLevel = "info",
  ) {}

  debug(event: string, fields: LogFields = {}): void {
    if (this.level === "debug") this.say("debug", event, fields);
  }

  info(event: string, fields: LogFields = {}): void {
    if (this.level === "info" || this.level === "debug") this.say("info", event, fields);
  }

  /** One of the many lines of ordinary traffic, whole as it is. */
  traffic(line: LogLine): void {
    if (this.level === "info" || this.level === "debug") this.line(line);
  }

  warn(event: string, fields: LogFields = {}): void {
    if (this.level !== "error") this.say("warn", event, fields);
  }

  error(event: string, fields: LogFields = {}): void {
    this.say("error", event, fields);
    this.flush();
  }

  flush(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (this.from === this.to) return;
    this.from += this.write(this.waiting.subarray(this.from, this.to));
    if (this.from < this.to) return this.later();
    this.from = this.to = 0;
    if (this.waiting.length > gatherBytes) this.waiting = Buffer.allocUnsafe(gatherBytes);
  }

  /** For a line that is written now. Many are in one millisecond, and a date costs as much to print as the rest of a line. */
  time(): string {
    const nowMs = Date.now();
    if (nowMs !== this.timeMs) {
      this.timeMs = nowMs;
      this.timeText = new Date(nowMs).toISOString();
    }
    return this.timeText;
  }

  private say(level: LogLevel, event: string, fields: LogFields): void {
    this.line({ time: this.time(), level, event, ...fields });
  }

  private line(line: LogLine): void {
    if (this.to - this.from > waitingMax) {
      this.dropped++;
      return;
    }
    const text = JSON.stringify(this.dropped > 0 ? { ...line, dropped_lines: this.dropped } : line);
    this.dropped = 0;
    this.makeRoom(text.length * 3 + 1);
    this.to += this.waiting.write(text, this.to);
    this.waiting[this.to++] = newline;
    if (this.to - this.from > flushAt) this.flush();
    else this.later();
  }

  private makeRoom(bytes: number): void {
    if (this.to + bytes <= this.waiting.length) return;
    const held = this.to - this.from;
    const grown = Buffer.allocUnsafe(Math.max(gatherBytes, (held + bytes) * 2));
    this.waiting.copy(grown, 0, this.from, this.to);
    this.waiting = grown;
    this.from = 0;
    this.to = held;
  }

  private later(): void {
    if (this.timer === null) this.wait();
  }

  private wait(): void {
    this.timer = setTimeout(() => {
      this.timer = null;
      this.flush();
    }, flushMs);
  }
}

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

/** What every line begins with. */
export interface LogLine {
  readonly time: string;
  readonly level: LogLevel;
  readonly event: string;
}

const newline = "\n".charCodeAt(0);
const gatherBytes = 64 * 1024;
const flushMs = 50;
const flushAt = 32 * 1024;
const waitingMax = 4 * 1024 * 1024;
