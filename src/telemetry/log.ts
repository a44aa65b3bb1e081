import { writeSync } from "node:fs";
import { WaitingBytes } from "../files/waiting-bytes.ts";

/**
 * The log: one JSON object on each line, or a text for a person at a terminal. Lines are batched, because a write for each call costs more than the rest of its
 * bookkeeping. If the reader of the log does not keep up, lines are dropped and counted; the gateway never waits for it.
 */
export class Log {
  /** Lines that have not been written yet. */
  private readonly waiting = new WaitingBytes(gatherBytes);
  private dropped = 0;
  /** How many of them a line tells that waits itself, and where that line ends, in bytes since the start. */
  private announced = 0;
  private announcedTo = 0;
  private writtenBytes = 0;
  /** The last write took nothing: the next one is left to the timer, because a write that fails costs as much as one that does not. */
  private isStalled = false;
  /** How many lines were dropped since the start. */
  droppedLines = 0;
  private timeMs = 0;
  private timeText = "";
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    /** Returns how many bytes were written; null if none of them ever will be. */
    private readonly write: (bytes: Uint8Array) => number | null,
    private readonly level: LogLevel = "info",
    private readonly textOf: (line: LogLine) => string = JSON.stringify,
  ) {}

  debug(event: string, fields: LogFields = {}): void {
    if (this.level === "debug") this.say("debug", event, fields);
  }

  info(event: string, fields: LogFields = {}): void {
    if (this.level === "info" || this.level === "debug") this.say("info", event, fields);
  }

  /** An access-log line, which is complete already. */
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
    const left = waiting.bytes.subarray(waiting.from, waiting.to);
    const written = this.write(left);
    this.isStalled = written === 0;
    if (written === null) this.lost(left);
    waiting.from += written ?? left.length;
    this.writtenBytes += written ?? left.length;
    if (this.writtenBytes >= this.announcedTo) this.announced = 0;
    if (waiting.length > 0) return this.later();
    waiting.clear();
  }

  /**
   * The time for a line that is written now. Many lines share a millisecond, and formatting a date costs as much as the rest of
   * a line.
   */
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
      this.drop(1);
      return;
    }
    const announces = this.dropped > 0 && this.announced === 0;
    const text = this.textOf(announces ? this.afterDropped(line) : line);
    waiting.makeRoom(text.length * 3 + 1);
    waiting.to += waiting.bytes.write(text, waiting.to);
    waiting.bytes[waiting.to++] = newline;
    if (announces) this.announceDropped();
    if (waiting.length > flushAt && !this.isStalled) this.flush();
    else this.later();
  }

  private announceDropped(): void {
    this.announced = this.dropped;
    this.announcedTo = this.writtenBytes + this.waiting.length;
    this.dropped = 0;
  }

  private lost(bytes: Uint8Array): void {
    // Nobody has read the line that tells of them.
    this.dropped += this.announced;
    let lines = 0;
    for (let at = bytes.indexOf(newline); at !== -1; at = bytes.indexOf(newline, at + 1)) lines += 1;
    this.drop(lines);
  }

  private drop(lines: number): void {
    this.dropped += lines;
    this.droppedLines += lines;
  }

  private afterDropped(line: LogLine): LogLine & { readonly dropped_lines: number } {
    return { ...line, dropped_lines: this.dropped };
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

/** The fields that every line begins with. */
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

/** Writes as much as standard output takes right now. */
export function writeStdout(bytes: Uint8Array): number | null {
  return writtenTo((all, at) => writeSync(1, all, at), bytes);
}

/** If a pipe or a disk is full, the rest is tried again later; whoever has closed the pipe, or a disk that fails, takes nothing more. */
export function writtenTo(write: (bytes: Uint8Array, at: number) => number, bytes: Uint8Array): number | null {
  let at = 0;
  try {
    while (at < bytes.length) at += write(bytes, at);
  } catch (error) {
    if (at === 0 && !passing.has((error as { code?: unknown }).code)) return null;
  }
  return at;
}

const passing: ReadonlySet<unknown> = new Set(["EAGAIN", "ENOSPC", "EDQUOT"]);
