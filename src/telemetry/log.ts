/**
 * The log: one JSON object a line. Lines are gathered and written together, because a write for each call costs more
 * than the rest of its bookkeeping. A reader that does not keep up loses lines, counted, and never stops the gateway.
 */
export class Log {
  private waiting: string[] = [];
  private waitingLength = 0;
  private dropped = 0;
  private timeMs = 0;
  private timeText = "";
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly write: (text: string) => number,
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
    if (this.waitingLength === 0) return;
    const text = `${this.waiting.join("\n")}\n`;
    const written = this.write(text);
    const left = text.slice(written);
    this.waiting = left === "" ? [] : [left.slice(0, -1)];
    this.waitingLength = left.length;
    if (left !== "") this.later();
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
    if (this.waitingLength > waitingMax) {
      this.dropped++;
      return;
    }
    const text = JSON.stringify(this.dropped > 0 ? { ...line, dropped_lines: this.dropped } : line);
    this.dropped = 0;
    this.waiting.push(text);
    this.waitingLength += text.length + 1;
    if (this.waitingLength > flushAt) this.flush();
    else this.later();
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

const flushMs = 50;
const flushAt = 32 * 1024;
const waitingMax = 4 * 1024 * 1024;
