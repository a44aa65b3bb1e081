import type { SseEvent } from "../dialect.ts";

/** Receives the events of a body as it is split. */
export interface SseVisitor {
  /** Receives an event. Returns whether to go on. */
  event(event: SseEvent): boolean;
}

/**
 * Splits a body into server-sent events. Almost every event arrives complete, as one canonical `data: …` frame; that case costs one
 * search for a line feed, and its frame is a view of the received bytes. Everything else that the format allows (CR, CRLF, fields,
 * comments, several data lines) takes the slow path and becomes a canonical frame too, because official clients fail on other fields.
 * In an API whose clients need the `event:` line, that line is part of the frame.
 */
export class SseReader {
  /** The incomplete line, in a buffer that grows by doubling: a line that arrives byte by byte must not take quadratic time. */
  private line = nothing;
  private lineLength = 0;
  private data: string[] = [];
  private dataLength = 0;
  /** The frame of the last data line, if it was large and needs no copy. */
  private framed: Uint8Array | null = null;
  private name = "";
  private afterReturn = false;
  private opening = true;
  private readonly ready: SseEvent[] = [];

  constructor(
    private readonly eventBytesMax = 8 * 1024 * 1024,
    /** Frames begin with the `event:` line of their events. */
    private readonly keepsNames = false,
  ) {}

  /** The events that this chunk completed, or `too_large` if one is larger than allowed. */
  push(chunk: Uint8Array): SseEvent[] | "too_large" {
    const events: SseEvent[] = [];
    const visitor = {
      event: (event: SseEvent) => {
        events.push(event);
        return true;
      },
    };
    return this.visit(chunk, visitor) === "too_large" ? "too_large" : events;
  }

  /** The same, passed to a visitor one by one. */
  visit(chunk: Uint8Array, visitor: SseVisitor): "too_large" | "done" {
    let at = 0;
    let canonicalUntil = -1;
    let plain: string | null | undefined;
    while (at < chunk.length) {
      if (this.lineLength === 0 && this.data.length === 0 && this.name === "" && !this.afterReturn) {
        if (canonicalUntil < 0) canonicalUntil = firstReturn(chunk);
        const dataAt = this.keepsNames ? afterName(chunk, at, canonicalUntil) : at;
        const end = canonicalEnd(chunk, dataAt, canonicalUntil);
        if (end > 0) {
          if (end - 2 - at > this.eventBytesMax) return "too_large";
          // The text of events that arrive together is decoded at once.
          const isAlone = at === 0 && end === chunk.length;
          if (plain === undefined && !isAlone) plain = plainText(chunk);
          const event = plain == null ? eventIn(chunk, at, dataAt, end, isAlone) : plainEvent(plain, chunk, at, dataAt, end);
          if (!visitor.event(event)) return "done";
          at = end;
          this.opening = false;
          continue;
        }
      }
      at = this.takeLine(chunk, at, this.ready);
      // A line ends one event at most.
      if (this.ready.length > 0 && !visitor.event(this.ready.pop()!)) return "done";
      if (this.lineLength + this.dataLength > this.eventBytesMax) return "too_large";
    }
    return "done";
  }

  /** The last event, if the body ended without the blank line after it. */
  close(): SseEvent[] {
    const events: SseEvent[] = [];
    if (this.lineLength > 0) this.endLine(events);
    this.dispatch(events);
    return events;
  }

  /** Takes bytes up to the end of the line or of the chunk, and returns where the rest begins. */
  private takeLine(chunk: Uint8Array, from: number, events: SseEvent[]): number {
    if (this.afterReturn) {
      this.afterReturn = false;
      if (chunk[from] === lineFeed) return from + 1;
    }
    let end = from;
    while (end < chunk.length && chunk[end] !== lineFeed && chunk[end] !== carriageReturn) end++;
    if (end > from) this.append(chunk, from, end);
    // A line that is too long is kept, so that the limit does not depend on how the body was split.
    if (end === chunk.length || this.lineLength + this.dataLength > this.eventBytesMax) return end;
    this.afterReturn = chunk[end] === carriageReturn;
    this.endLine(events);
    return end + 1;
  }

  private append(chunk: Uint8Array, from: number, to: number): void {
    const length = this.lineLength + to - from;
    if (length > this.line.length) {
      // A large line gets all the space it may need at once, with the end of a frame: unused memory costs nothing, old copies do.
      const allowed = length > largeLineBytes ? this.eventBytesMax + endLength : 0;
      const grown = new Uint8Array(Math.max(length, this.line.length * 2, allowed, 256));
      grown.set(this.line.subarray(0, this.lineLength));
      this.line = grown;
    }
    this.line.set(chunk.subarray(from, to), this.lineLength);
    this.lineLength = length;
  }

  private endLine(events: SseEvent[]): void {
    const from = this.opensWithMark() ? 3 : 0;
    this.opening = false;
    if (this.lineLength === 0) return this.dispatch(events);
    const { text, valid } = decode(this.line.subarray(from, this.lineLength));
    const isGivenUp = this.line.length > keptLineBytes;
    this.framed = valid && from === 0 && isGivenUp ? frameIn(this.line, this.lineLength) : null;
    this.lineLength = 0;
    if (isGivenUp) this.line = nothing;
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") {
      this.data.push(value);
      this.dataLength += value.length + 1;
    } else if (field === "event") {
      this.name = value;
    }
  }

  /** A byte order mark may begin the body; anywhere else it is content. */
  private opensWithMark(): boolean {
    return this.opening && this.line[0] === 0xef && this.line[1] === 0xbb && this.line[2] === 0xbf;
  }

  private dispatch(events: SseEvent[]): void {
    // Payloads are JSON, where a line break can only be between tokens, so a space means the same.
    const data = this.data.length === 1 ? this.data[0]! : this.data.join(" ");
    const { name } = this;
    const isNamed = this.keepsNames && name !== "";
    const frame = this.data.length === 1 && !isNamed ? this.framed : null;
    this.data = [];
    this.dataLength = 0;
    this.framed = null;
    this.name = "";
    if (data !== "") events.push(frame === null ? canonical(name, data, isNamed) : { name, data, frame });
  }
}

const lineFeed = 10;
const carriageReturn = 13;
const prefix = new TextEncoder().encode("data: ");
const prefixLength = prefix.length;
const namePrefix = new TextEncoder().encode("event: ");
const endLength = "\n\n".length;
const keptLineBytes = 4096;
const largeLineBytes = 1024 * 1024;
const nothing = new Uint8Array(0);

/** A carriage return ends a line too; from the first one on, a chunk takes the slow path. */
function firstReturn(chunk: Uint8Array): number {
  const at = chunk.indexOf(carriageReturn);
  return at < 0 ? chunk.length : at;
}

/** Where the line after a canonical `event: …` line at `at` begins; `at` if there is none. */
function afterName(chunk: Uint8Array, at: number, until: number): number {
  for (let index = 0; index < namePrefix.length; index++) if (chunk[at + index] !== namePrefix[index]) return at;
  const end = chunk.indexOf(lineFeed, at + namePrefix.length);
  return end > at + namePrefix.length && end < until ? end + 1 : at;
}

/** The end of a canonical frame at `at` (`data: `, one line, LF LF); 0 if there is none. */
function canonicalEnd(chunk: Uint8Array, at: number, until: number): number {
  if (
    chunk[at] !== 0x64 ||
    chunk[at + 1] !== 0x61 ||
    chunk[at + 2] !== 0x74 ||
    chunk[at + 3] !== 0x61 ||
    chunk[at + 4] !== 0x3a ||
    chunk[at + 5] !== 0x20
  )
    return 0;
  const end = chunk.indexOf(lineFeed, at + prefixLength);
  return end > at + prefixLength && end < until && chunk[end + 1] === lineFeed ? end + 2 : 0;
}

/** Appends the end of a frame to a line in its own buffer, if there is room, which saves a copy. */
function frameIn(line: Uint8Array, length: number): Uint8Array | null {
  const isCanonical = prefix.every((byte, at) => line[at] === byte);
  if (!isCanonical || line.length < length + endLength) return null;
  line[length] = lineFeed;
  line[length + 1] = lineFeed;
  return line.subarray(0, length + endLength);
}

/** The text of ASCII bytes, in which offsets are the same as in the bytes; null for other bytes. */
function plainText(bytes: Uint8Array): string | null {
  const { text, valid } = decode(bytes);
  return valid && text.length === bytes.length ? text : null;
}

function plainEvent(text: string, chunk: Uint8Array, at: number, dataAt: number, end: number): SseEvent {
  return { name: nameIn(text, at, dataAt), data: text.slice(dataAt + prefixLength, end - 2), frame: chunk.subarray(at, end) };
}

/** The event of a canonical frame. If it is the whole chunk, as usual, no view is made. */
function eventIn(chunk: Uint8Array, at: number, dataAt: number, end: number, isAlone: boolean): SseEvent {
  const frame = isAlone ? chunk : chunk.subarray(at, end);
  const { text, valid } = decode(frame);
  const lineAt = dataAt === at ? 0 : text.indexOf("\n") + 1;
  const name = nameIn(text, 0, lineAt);
  const data = text.slice(lineAt + prefixLength, -2);
  return valid ? { name, data, frame } : canonical(name, data, name !== "");
}

/** The name in the line between the two offsets; empty where there is no line. */
function nameIn(text: string, at: number, dataAt: number): string {
  return dataAt === at ? "" : text.slice(at + namePrefix.length, dataAt - 1);
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

function decode(bytes: Uint8Array): { readonly text: string; readonly valid: boolean } {
  try {
    return { text: strict.decode(bytes), valid: true };
  } catch {
    return { text: lenient.decode(bytes), valid: false };
  }
}

function canonical(name: string, data: string, isNamed: boolean): SseEvent {
  return { name, data, frame: encoder.encode(`${isNamed ? `event: ${name}\n` : ""}data: ${data}\n\n`) };
}
