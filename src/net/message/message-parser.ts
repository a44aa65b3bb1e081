import { areExtensions, pastBlanks } from "./chunk-extensions.ts";
import { isTrailer, malformedLine, type HeaderCache } from "./header-cache.ts";
import type { HeaderLines } from "./header-lines.ts";

/** What a parser finds behind a head, told in order: parts of the body, the end. */
export interface BodySink {
  body(bytes: Uint8Array): void;
  /** The message is complete. */
  end(): void;
}

/** How long the body of a message is: so many bytes, as many as its chunks say, or all there is until the connection closes. */
export type Framing = number | "chunked" | "until_close";

/**
 * Reads one HTTP/1.1 message, however the network cut it (RFC 9112). What could be read in two ways is refused rather
 * than guessed at, since one message read wrongly makes the next one somebody else's. Everything has a bound.
 */
export abstract class MessageParser<Sink extends BodySink = BodySink> {
  private state: "head" | "length" | "size" | "data" | "data_end" | "trailer" | "until_close" | "over" = "head";
  /** Bytes of a head or a line that is not complete yet, at the beginning of a memory that grows ahead of them. */
  private carry: Buffer | null = null;
  private carried = 0;
  private left = 0;
  /** Of chunk extensions and trailers, which are read and thrown away. */
  private asideBytes = 0;
  private trailers = 0;
  /** The pieces of the body that came together, put together: many small chunks are one part for whoever reads them. */
  private gathered: Uint8Array | null = null;
  private gatheredLength = 0;

  constructor(
    protected sink: Sink,
    private readonly heads: HeaderCache,
    private readonly headBytesMax: number,
    /** Blanks around a chunk's size and in its extensions: some servers send them, and no proxy must read past them. */
    private readonly blanks: "refused" | "allowed",
  ) {}

  get isOver(): boolean {
    return this.state === "over";
  }

  /** Nothing of the next message has come. */
  get isIdle(): boolean {
    return this.state === "head" && this.carried === 0;
  }

  /** A part of the next head came, but not all of it. */
  get isInHead(): boolean {
    return this.state === "head" && this.carried > 0;
  }

  /** What is wrong with the first bytes of a head, as far as it can be told yet; null where nothing is. */
  protected abstract badBeginning(bytes: Buffer, start: number, stop: number): string | null;

  /** Takes a head. Calls `frame`, unless another head follows. Returns what is wrong, or null. */
  protected abstract readHead(head: HeaderLines): string | null;

  /** Says how long the body is, before anything of it is read. */
  protected frame(framing: Framing): void {
    if (typeof framing === "string") this.state = framing === "chunked" ? "size" : "until_close";
    else {
      this.left = framing;
      this.state = "length";
    }
  }

  /** After the head was taken: a body of no bytes is over. */
  protected settleFrame(): void {
    if (this.state === "length" && this.left === 0) this.finish();
  }

  /** Is ready for another message on the same connection. */
  protected startOver(): void {
    this.state = "head";
    this.asideBytes = 0;
    this.trailers = 0;
    // A connection that waits keeps nothing of what it carried.
    this.carry = null;
  }

  /** Takes bytes from a place on, until the message is over. Returns how far it came, or what is wrong with them. */
  protected take(chunk: Buffer, from: number): number | string {
    const taken = this.taken(chunk, from);
    if (this.gathered !== null) this.handOver();
    return taken;
  }

  private taken(chunk: Buffer, from: number): number | string {
    let at = from;
    while (at < chunk.length) {
      switch (this.state) {
        case "length":
        case "data":
          at = this.takeBody(chunk, at);
          break;
        case "until_close":
          this.sink.body(at === 0 ? chunk : chunk.subarray(at));
          return chunk.length;
        case "over":
          return at;
        default: {
          const next = this.state === "head" ? this.takeHead(chunk, at) : this.takeLine(chunk, at);
          if (typeof next === "string") return next;
          at = next;
        }
      }
    }
    return at;
  }

  /** The connection was closed. Returns whether that is a proper end. */
  protected endByClose(): boolean {
    if (this.state === "until_close") this.finish();
    return this.state === "over";
  }

  private takeHead(chunk: Buffer, from: number): number | string {
    const before = this.carried;
    // What lies beyond the bound need not be looked at: a head that reaches it is too large.
    const to = Math.min(chunk.length, from + this.headBytesMax - before);
    const bytes = before === 0 ? chunk : this.keep(chunk, from, to);
    const start = before === 0 ? from : 0;
    const stop = before === 0 ? to : bytes.length;
    const bad = this.badBeginning(bytes, start, stop);
    if (bad !== null) return bad;
    const end = headEnd(bytes, start, start + before, stop);
    if (end === "malformed") return malformedLine;
    if (end === null) {
      if (stop - start === this.headBytesMax) return headTooLarge;
      if (before === 0) this.keep(chunk, from, to);
      return to;
    }
    this.carried = 0;
    const head = this.heads.read(bytes, start, end);
    return (typeof head === "string" ? head : this.readHead(head)) ?? (before === 0 ? end : from + end - before);
  }

  private takeBody(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.left);
    this.left -= end - at;
    // Behind the last chunk of those that came together there is nothing but its line end.
    if (this.state === "data" && (this.gathered !== null || (end + 2 < chunk.length && end - at <= gatheredPieceMax)))
      this.gather(chunk, at, end);
    else this.sink.body(partOf(chunk, at, end));
    if (this.left > 0) return end;
    if (this.state === "length") this.finish();
    else this.state = "data_end";
    return end;
  }

  private gather(chunk: Buffer, at: number, end: number): void {
    this.gathered ??= new Uint8Array(chunk.length - at);
    this.gatheredLength += chunk.copy(this.gathered, this.gatheredLength, at, end);
  }

  private handOver(): void {
    const { gathered, gatheredLength } = this;
    this.gathered = null;
    this.gatheredLength = 0;
    this.sink.body(gathered!.subarray(0, gatheredLength));
  }

  /** A line of the chunked framing: a size, the end of a chunk, a trailer. */
  private takeLine(chunk: Buffer, from: number): number | string {
    const feed = chunk.indexOf(lineFeed, from);
    const to = feed < 0 ? chunk.length : feed + 1;
    const length = this.carried + to - from;
    if (this.state === "data_end" && length > 2) return "a chunk is longer than it says";
    if (length > lineBytesMax) return "a line of the chunked body is too long";
    // Mostly it is all there, and is read where it lies: a view of it would cost more than the rest.
    const isThere = this.carried === 0 && feed >= 0;
    const bytes = isThere ? chunk : this.keep(chunk, from, to);
    if (feed < 0) return to;
    this.carried = 0;
    return (isThere ? this.readLine(bytes, from, to) : this.readLine(bytes, 0, length)) ?? to;
  }

  private readLine(bytes: Buffer, from: number, to: number): string | null {
    const length = to - from;
    if (length < 2 || firstReturn(bytes, from, to) !== to - 2) return "a line of the chunked body does not end as it should";
    if (this.state === "data_end") {
      this.state = "size";
      return null;
    }
    return this.state === "trailer" ? this.readTrailer(bytes, from, to) : this.readSize(bytes, from, to - 2);
  }

  /** What a trailer says is not used; but one that is none could be a request for whoever reads it otherwise. */
  private readTrailer(bytes: Buffer, from: number, to: number): string | null {
    this.asideBytes += to - from;
    if (this.asideBytes > this.headBytesMax) return tooMuchAside;
    if (to - from === 2) this.finish();
    else if (++this.trailers > this.heads.headersMax) return "there are too many trailers";
    else if (!isTrailer(bytes, from, to - 2)) return "a trailer is malformed";
    return null;
  }

  private readSize(bytes: Buffer, from: number, end: number): string | null {
    let size = 0;
    let at = from;
    for (let digit = hexDigit(bytes[at]!); digit >= 0; digit = hexDigit(bytes[at]!)) {
      size = size * 16 + digit;
      at++;
    }
    if (at === from || at - from > sizeDigitsMax) return noSize;
    if (at < end) {
      const allowsBlanks = this.blanks === "allowed";
      const aside = allowsBlanks ? pastBlanks(bytes, at, end) : at;
      if (aside < end && bytes[aside] !== semicolon) return noSize;
      this.asideBytes += end - at;
      if (this.asideBytes > this.headBytesMax) return tooMuchAside;
      if (!areExtensions(bytes, aside, end, allowsBlanks)) return "a chunk extension is malformed";
    }
    this.left = size;
    this.state = size === 0 ? "trailer" : "data";
    return null;
  }

  /** Puts bytes behind those that are kept already, at a cost that does not grow with them. Returns them all. */
  private keep(chunk: Buffer, from: number, to: number): Buffer {
    const length = this.carried + to - from;
    if (this.carry === null || this.carry.length < length) {
      const grown = Buffer.allocUnsafe(2 * length);
      this.carry?.copy(grown, 0, 0, this.carried);
      this.carry = grown;
    }
    chunk.copy(this.carry, this.carried, from, to);
    this.carried = length;
    return this.carry.subarray(0, length);
  }

  private finish(): void {
    if (this.gathered !== null) this.handOver();
    this.state = "over";
    this.sink.end();
  }
}

/** A view of another memory costs more than a copy of a few bytes. */
function partOf(chunk: Buffer, from: number, to: number): Uint8Array {
  if (from === 0 && to === chunk.length) return chunk;
  if (to - from > copiedBytesMax) return chunk.subarray(from, to);
  const part = new Uint8Array(to - from);
  chunk.copy(part, 0, from, to);
  return part;
}

/** Gives the memory of a chunk back at once. Nobody may look at it any more; left to be collected, it costs three times as much. */
export function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** A longer part of a body is a view of the chunk it came in. */
export const copiedBytesMax = 1000;
/** A chunk that is larger than this is a part of its own, unless it came behind smaller ones. */
const gatheredPieceMax = 4096;

export const headTooLarge = "the head is too large";

const noSize = "a chunk has no valid size";
const tooMuchAside = "the chunk extensions and trailers are too large";
const lineBytesMax = 4096;
/** More than enough for any chunk, and exact in a double. */
const sizeDigitsMax = 12;
const lineFeed = 10;
const carriageReturn = 13;
const semicolon = 0x3b;

/**
 * Where the blank line is over that ends a head, which may have begun just before a place; null where it has not come
 * yet. Where lines end otherwise, it would never come: that is told at once.
 */
function headEnd(bytes: Buffer, start: number, from: number, stop: number): number | null | "malformed" {
  const blank = bytes.indexOf(blankLine, Math.max(start, from - blankLine.length + 1));
  if (blank >= 0 && blank + blankLine.length <= stop) return blank + blankLine.length;
  for (let at = bytes.indexOf(lineFeed, from); at >= 0 && at < stop; at = bytes.indexOf(lineFeed, at + 1))
    if (at === start || bytes[at - 1] !== carriageReturn) return "malformed";
  return null;
}

const blankLine = Buffer.from("\r\n\r\n");

function firstReturn(bytes: Buffer, from: number, to: number): number {
  let at = from;
  while (at < to && bytes[at] !== carriageReturn) at++;
  return at;
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
