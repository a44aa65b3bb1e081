import { writeSync } from "node:fs";
import { WaitingBytes } from "../files/waiting-bytes.ts";

/**
 * The log: one JSON object a line. Lines are gathered and written together, because a write for each call costs more
 * than the rest of its bookkeeping. A reader that does not keep up loses lines, counted, and never stops the gateway.
 */
export class Log {
  /** Lines that nobody has taken yet. */
  private readonly waiting = new WaitingBytes(gatherBytes);
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
    const { waiting } = this;
    if (waiting.length === 0) return;
    waiting.from += this.write(waiting.bytes.subarray(waiting.from, waiting.to));
    if (waiting.length > 0) return this.later();
    waiting.clear();
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
    const { waiting } = this;
    if (waiting.length > waitingMax) {
      this.dropped++;
      return;
    }
    const text = JSON.stringify(this.dropped > 0 ? { ...line, dropped_lines: this.dropped } : line);
    this.dropped = 0;
    waiting.makeRoom(text.length * 3 + 1);
    waiting.to += waiting.bytes.write(text, waiting.to);
    waiting.bytes[waiting.to++] = newline;
    if (waiting.length > flushAt) this.flush();
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

const newline = "\n".charCodeAt(0);
const gatherBytes = 64 * 1024;
const flushMs = 50;
const flushAt = 32 * 1024;
const waitingMax = 4 * 1024 * 1024;

/** Writes what the reader of standard output takes right now and returns how many bytes that was. */
export function writeStdout(bytes: Uint8Array): number {
  let at = 0;
  try {
    while (at < bytes.length) at += writeSync(1, bytes, at);
  } catch (error) {
    // A full pipe is tried again later; a closed one is not worth keeping lines for.
    if ((error as { code?: unknown }).code !== "EAGAIN") return bytes.length;
  }
  return at;
}
