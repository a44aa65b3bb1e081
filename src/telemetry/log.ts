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
    if (this.level === "debug") this.line("debug", event, inner(fields));
  }

  info(event: string, fields: LogFields = {}): void {
    if (this.level === "info" || this.level === "debug") this.line("info", event, inner(fields));
  }

  /** One of the many lines of ordinary traffic, with its fields already in JSON (without braces). */
  traffic(event: string, fields: string): void {
    if (this.level === "info" || this.level === "debug") this.line("info", event, fields);
  }

  warn(event: string, fields: LogFields = {}): void {
    if (this.level !== "error") this.line("warn", event, inner(fields));
  }

  error(event: string, fields: LogFields = {}): void {
    this.line("error", event, inner(fields));
    this.flush();
  }

  flush(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (this.waitingLength === 0) return;
    const text = this.waiting.join("");
    const written = this.write(text);
    const left = text.slice(written);
    this.waiting = left === "" ? [] : [left];
    this.waitingLength = left.length;
    if (left !== "") this.later();
  }

  /** Busy gateways write many lines in one millisecond, and a date costs as much to print as the rest of a line. */
  private time(): string {
    const nowMs = Date.now();
    if (nowMs !== this.timeMs) {
      this.timeMs = nowMs;
      this.timeText = new Date(nowMs).toISOString();
    }
    return this.timeText;
  }

  /** `fields` is JSON without its braces. */
  private line(level: LogLevel, event: string, fields: string): void {
    if (this.waitingLength > waitingMax) {
      this.dropped++;
      return;
    }
    const lost = this.dropped > 0 ? `,"dropped_lines":${this.dropped}` : "";
    this.dropped = 0;
    const text = `{"time":"${this.time()}","level":"${level}","event":"${event}"${fields === "" ? "" : ","}${fields}${lost}}\n`;
    this.waiting.push(text);
    this.waitingLength += text.length;
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

function inner(fields: LogFields): string {
  return JSON.stringify(fields).slice(1, -1);
}

const flushMs = 50;
const flushAt = 32 * 1024;
const waitingMax = 4 * 1024 * 1024;
