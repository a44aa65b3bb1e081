import type { SseEvent } from "../dialect.ts";

/** Receives the events of a body as it is split. */
export interface SseVisitor {
  /** Where a frame ends that begins here and that it knows without having it read; 0 where there is none. */
  recognised(chunk: Uint8Array, at: number): number;
  /** An event. Returns whether it goes on. */
  event(event: SseEvent): boolean;
}

/**
 * Splits a body into server-sent events, however the network cut it. Almost every event arrives whole and as one
 * canonical `data: …` frame; that case costs one search for a line feed, and its frame is a view of the bytes it came
 * in. Everything else the format allows (CR, CRLF, fields, comments, several data lines) takes the slow path and
 * leaves as a canonical frame too, because official clients choke on the other fields.
 */
export class SseReader {
  /** The unfinished line, in a buffer that grows by doubling: a line dripped byte by byte must not cost its square. */
  private line = nothing;
  private lineLength = 0;
  private data: string[] = [];
  private dataLength = 0;
  /** The frame of the last data line, where it was large and stands there already. */
  private framed: Uint8Array | null = null;
  private name = "";
  private afterReturn = false;
  private opening = true;
  private readonly ready: SseEvent[] = [];

  constructor(private readonly eventBytesMax = 8 * 1024 * 1024) {}

  /** The events that this chunk completed, or `too_large` when one outgrew its bound. */
  push(chunk: Uint8Array): SseEvent[] | "too_large" {
    const events: SseEvent[] = [];
    const visitor = {
      recognised: () => 0,
      event: (event: SseEvent) => {
        events.push(event);
        return true;
      },
    };
    return this.visit(chunk, visitor) === "too_large" ? "too_large" : events;
  }

  /** The same, told one by one. */
  visit(chunk: Uint8Array, visitor: SseVisitor): "too_large" | "done" {
    let at = 0;
    let canonicalUntil = -1;
    let plain: string | null | undefined;
    while (at < chunk.length) {
      if (this.lineLength === 0 && this.data.length === 0 && this.name === "" && !this.afterReturn) {
        const known = visitor.recognised(chunk, at);
        if (known > 0) {
          at = known;
          this.opening = false;
          continue;
        }
        if (canonicalUntil < 0) canonicalUntil = firstReturn(chunk);
        const end = canonicalEnd(chunk, at, canonicalUntil);
        if (end > 0) {
          if (end - 2 - at > this.eventBytesMax) return "too_large";
          // Of events that came together, all texts are made in one go.
          const isAlone = at === 0 && end === chunk.length;
          if (plain === undefined && !isAlone) plain = plainText(chunk);
          if (!visitor.event(plain == null ? eventIn(chunk, at, end, isAlone) : plainEvent(plain, chunk, at, end))) return "done";
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

  /** The last event, where the body ended without the blank line that should have closed it. */
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
    // A line that is too long stays where it is, so that its length is judged alike however the body was cut.
    if (end === chunk.length || this.lineLength + this.dataLength > this.eventBytesMax) return end;
    this.afterReturn = chunk[end] === carriageReturn;
    this.endLine(events);
    return end + 1;
  }

  private append(chunk: Uint8Array, from: number, to: number): void {
    const length = this.lineLength + to - from;
    if (length > this.line.length) {
      // A large one gets all it may need at once, and the end of a frame: memory counts when it is written to, old copies always.
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

  /** A byte order mark may open the body; anywhere else it is content. */
  private opensWithMark(): boolean {
    return this.opening && this.line[0] === 0xef && this.line[1] === 0xbb && this.line[2] === 0xbf;
  }

  private dispatch(events: SseEvent[]): void {
    // Payloads are JSON, in which a line break can only stand between tokens: a space says the same on one line.
    const data = this.data.length === 1 ? this.data[0]! : this.data.join(" ");
    const { name } = this;
    const frame = this.data.length === 1 ? this.framed : null;
    this.data = [];
    this.dataLength = 0;
    this.framed = null;
    this.name = "";
    if (data !== "") events.push(frame === null ? canonical(name, data) : { name, data, frame });
  }
}

const lineFeed = 10;
const carriageReturn = 13;
const prefix = new TextEncoder().encode("data: ");
const prefixLength = prefix.length;
const endLength = "\n\n".length;
const keptLineBytes = 4096;
const largeLineBytes = 1024 * 1024;
const nothing = new Uint8Array(0);

/** A carriage return ends a line as well; from the first one on, a chunk takes the slow path. */
function firstReturn(chunk: Uint8Array): number {
  const at = chunk.indexOf(carriageReturn);
  return at < 0 ? chunk.length : at;
}

/** The end of a canonical frame that starts here (`data: `, one line, LF LF), or 0 where there is none. */
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

/** A line that is a canonical frame but for its end gets that, where there is room: a second copy of it is not needed. */
function frameIn(line: Uint8Array, length: number): Uint8Array | null {
  const isCanonical = prefix.every((byte, at) => line[at] === byte);
  if (!isCanonical || line.length < length + endLength) return null;
  line[length] = lineFeed;
  line[length + 1] = lineFeed;
  return line.subarray(0, length + endLength);
}

/** A text with as many characters as bytes, so that a place in one is the same in the other; null where there are other ones. */
function plainText(bytes: Uint8Array): string | null {
  const { text, valid } = decode(bytes);
  return valid && text.length === bytes.length ? text : null;
}

function plainEvent(text: string, chunk: Uint8Array, at: number, end: number): SseEvent {
  return { name: "", data: text.slice(at + prefixLength, end - 2), frame: chunk.subarray(at, end) };
}

/** The event of a canonical frame. One that came alone, as most do, is its own frame: a view of it would cost more. */
function eventIn(chunk: Uint8Array, at: number, end: number, isAlone: boolean): SseEvent {
  const frame = isAlone ? chunk : chunk.subarray(at, end);
  const { text, valid } = decode(frame);
  const data = text.slice(prefixLength, -2);
  return valid ? { name: "", data, frame } : canonical("", data);
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

function canonical(name: string, data: string): SseEvent {
  return { name, data, frame: encoder.encode(`data: ${data}\n\n`) };
}
