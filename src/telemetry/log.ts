/**
 * The log: one JSON object a line. Lines are gathered and written together, because a write for each call costs more
 * than the rest of its bookkeeping. A reader that does not keep up loses lines, counted, and never stops the gateway.
 */
export class Log {
  private waiting: string[] = [];
  private waitingLength = 0;
  private dropped = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly write: (text: string) => number,
    private readonly level: LogLevel = "info",
  ) {}

  debug(event: string, fields: LogFields = {}): void {
    if (this.level === "debug") this.line("debug", event, fields);
  }

  info(event: string, fields: LogFields = {}): void {
    if (this.level === "info" || this.level === "debug") this.line("info", event, fields);
  }

  warn(event: string, fields: LogFields = {}): void {
    if (this.level !== "error") this.line("warn", event, fields);
  }

  error(event: string, fields: LogFields = {}): void {
    this.line("error", event, fields);
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

  private line(level: LogLevel, event: string, fields: LogFields): void {
    if (this.waitingLength > waitingMax) {
      this.dropped++;
      return;
    }
    const lost = this.dropped > 0 ? { dropped_lines: this.dropped } : undefined;
    this.dropped = 0;
    const text = `${JSON.stringify({ time: new Date().toISOString(), level, event, ...fields, ...lost })}\n`;
    this.waiting.push(text);
    this.waitingLength += text.length;
    if (this.waitingLength > flushAt) this.flush();
    else this.later();
  }

  private later(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.flush();
    }, flushMs);
  }
}

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

const flushMs = 50;
const flushAt = 32 * 1024;
const waitingMax = 4 * 1024 * 1024;
