import { areChunkExtensions, skipWhitespace } from "./chunk-extensions.ts";
import { isTrailer, malformedLine } from "./head-parser.ts";
import type { HeaderCache } from "./header-cache.ts";
import type { HeaderLines } from "./header-lines.ts";

/** Receives what the parser finds after a head, in order: parts of the body, then the end. */
export interface BodySink {
  onBody(bytes: Uint8Array): void;
  /** The message is complete. */
  onEnd(): void;
}

/** How the length of a body is determined (RFC 9112, 6.3): a number of bytes, by chunks, or by the close of the connection. */
export type Framing = number | "chunked" | "until_close";

/**
 * Parses one HTTP/1.1 message from chunks of any size (RFC 9112). Input that could be read in two ways is rejected instead of
 * guessed at: a message whose end is misjudged lets an attacker prepend bytes to the next request (request smuggling, RFC 9112,
 * 11.2). Everything has a bound.
 */
export abstract class MessageParser<Sink extends BodySink = BodySink> {
  private state: "head" | "length" | "chunk_size" | "chunk_data" | "chunk_end" | "trailer" | "until_close" | "complete" = "head";
  /** The bytes of an incomplete head or line, at the beginning of a buffer that grows ahead of them. */
  private partial: Buffer | null = null;
  private partialLength = 0;
  private remaining = 0;
  /** Bytes of chunk extensions and trailers, which are validated and discarded. */
  private overheadBytes = 0;
  private trailers = 0;
  /** Several small chunks that arrived together are joined, and passed on as one part. */
  private joined: Uint8Array | null = null;
  private joinedLength = 0;

  constructor(
    protected sink: Sink,
    private readonly headerCache: HeaderCache,
    private readonly headBytesMax: number,
    /**
     * Whether whitespace around a chunk's size and in its extensions is accepted. RFC 9112, 7.1.1 has recipients parse it, and
     * some upstreams send it; in requests it is rejected, because proxies disagree on it.
     */
    private readonly whitespace: "rejected" | "allowed",
  ) {}

  get isComplete(): boolean {
    return this.state === "complete";
  }

  /** No byte of the next message has arrived. */
  get isIdle(): boolean {
    return this.state === "head" && this.partialLength === 0;
  }

  /** A part of the next head has arrived. */
  get isInHead(): boolean {
    return this.state === "head" && this.partialLength > 0;
  }

  /** Returns what is wrong with the first bytes of a head, as early as that is certain, or null. */
  protected abstract checkStart(bytes: Buffer, start: number, stop: number): string | null;

  /** Handles a head. Calls `setFraming`, unless another head follows (an interim response). Returns what is wrong, or null. */
  protected abstract handleHead(head: HeaderLines): string | null;

  /** Sets how the length of the body is determined, before any of it is read. */
  protected setFraming(framing: Framing): void {
    if (typeof framing === "string") this.state = framing === "chunked" ? "chunk_size" : "until_close";
    else {
      this.remaining = framing;
      this.state = "length";
    }
  }

  /** Ends a message with an empty body, after its head was handled. */
  protected endIfEmpty(): void {
    if (this.state === "length" && this.remaining === 0) this.complete();
  }

  /** Prepares for another message on the same connection. */
  protected reset(): void {
    this.state = "head";
    this.overheadBytes = 0;
    this.trailers = 0;
    // An idle connection keeps no buffer.
    this.partial = null;
  }

  /** Parses bytes from a position until the message is complete. Returns the position reached, or what is wrong as a text. */
  protected execute(chunk: Buffer, from: number): number | string {
    const position = this.parse(chunk, from);
    if (this.joined !== null) this.flushJoined();
    return position;
  }

  private parse(chunk: Buffer, from: number): number | string {
    let at = from;
    while (at < chunk.length) {
      switch (this.state) {
        case "length":
        case "chunk_data":
          at = this.parseBody(chunk, at);
          break;
        case "until_close":
          this.sink.onBody(at === 0 ? chunk : chunk.subarray(at));
          return chunk.length;
        case "complete":
          return at;
        default: {
          const next = this.state === "head" ? this.parseHead(chunk, at) : this.parseLine(chunk, at);
          if (typeof next === "string") return next;
          at = next;
        }
      }
    }
    return at;
  }

  /** The connection was closed. Returns whether that is a proper end of the message (RFC 9112, 8). */
  protected finishOnClose(): boolean {
    if (this.state === "until_close") this.complete();
    return this.state === "complete";
  }

  private parseHead(chunk: Buffer, from: number): number | string {
    const before = this.partialLength;
    // Bytes beyond the bound are not looked at: a head that reaches it is too large.
    const to = Math.min(chunk.length, from + this.headBytesMax - before);
    const bytes = before === 0 ? chunk : this.appendPartial(chunk, from, to);
    const start = before === 0 ? from : 0;
    const stop = before === 0 ? to : bytes.length;
    const bad = this.checkStart(bytes, start, stop);
    if (bad !== null) return bad;
    const end = headEnd(bytes, start, start + before, stop);
    if (end === "malformed") return malformedLine;
    if (end === null) {
      if (stop - start === this.headBytesMax) return headTooLarge;
      if (before === 0) this.appendPartial(chunk, from, to);
      return to;
    }
    this.partialLength = 0;
    const head = this.headerCache.parse(bytes, start, end);
    return (typeof head === "string" ? head : this.handleHead(head)) ?? (before === 0 ? end : from + end - before);
  }

  private parseBody(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.remaining);
    this.remaining -= end - at;
    // After the last of the chunks that arrived together there is nothing but its line end.
    if (this.state === "chunk_data" && (this.joined !== null || (end + 2 < chunk.length && end - at <= joinedChunkMax)))
      this.join(chunk, at, end);
    else this.sink.onBody(viewOrCopy(chunk, at, end));
    if (this.remaining > 0) return end;
    if (this.state === "length") this.complete();
    else this.state = "chunk_end";
    return end;
  }

  private join(chunk: Buffer, at: number, end: number): void {
    this.joined ??= new Uint8Array(chunk.length - at);
    this.joinedLength += chunk.copy(this.joined, this.joinedLength, at, end);
  }

  private flushJoined(): void {
    const { joined, joinedLength } = this;
    this.joined = null;
    this.joinedLength = 0;
    this.sink.onBody(joined!.subarray(0, joinedLength));
  }

  /** Handles a line of the chunked framing (RFC 9112, 7.1): a chunk size, the end of a chunk, or a trailer. */
  private parseLine(chunk: Buffer, from: number): number | string {
    const feed = nextLineFeed(chunk, from);
    const to = feed < 0 ? chunk.length : feed + 1;
    const length = this.partialLength + to - from;
    if (this.state === "chunk_end" && length > 2) return "a chunk is longer than it says";
    if (length > lineBytesMax) return "a line of the chunked body is too long";
    // Usually the whole line is in the chunk and is read in place: a view of it would cost more than the parsing.
    const isInChunk = this.partialLength === 0 && feed >= 0;
    const bytes = isInChunk ? chunk : this.appendPartial(chunk, from, to);
    if (feed < 0) return to;
    this.partialLength = 0;
    return (isInChunk ? this.handleLine(bytes, from, to) : this.handleLine(bytes, 0, length)) ?? to;
  }

  private handleLine(bytes: Buffer, from: number, to: number): string | null {
    const length = to - from;
    if (length < 2 || indexOfReturn(bytes, from, to) !== to - 2) return "a line of the chunked body does not end as it should";
    if (this.state === "chunk_end") {
      this.state = "chunk_size";
      return null;
    }
    return this.state === "trailer" ? this.handleTrailer(bytes, from, to) : this.handleChunkSize(bytes, from, to - 2);
  }

  /** Trailers are not used, but they are validated: another parser might take a malformed one for the next request. */
  private handleTrailer(bytes: Buffer, from: number, to: number): string | null {
    this.overheadBytes += to - from;
    if (this.overheadBytes > this.headBytesMax) return tooMuchOverhead;
    if (to - from === 2) this.complete();
    else if (++this.trailers > this.headerCache.headersMax) return "there are too many trailers";
    else if (!isTrailer(bytes, from, to - 2)) return "a trailer is malformed";
    return null;
  }

  private handleChunkSize(bytes: Buffer, from: number, end: number): string | null {
    let size = 0;
    let at = from;
    for (let digit = hexDigit(bytes[at]!); digit >= 0; digit = hexDigit(bytes[at]!)) {
      size = size * 16 + digit;
      at++;
    }
    if (at === from || at - from > sizeDigitsMax) return invalidChunkSize;
    if (at < end) {
      const allowsWhitespace = this.whitespace === "allowed";
      const extensionsAt = allowsWhitespace ? skipWhitespace(bytes, at, end) : at;
      if (extensionsAt < end && bytes[extensionsAt] !== semicolon) return invalidChunkSize;
      this.overheadBytes += end - at;
      if (this.overheadBytes > this.headBytesMax) return tooMuchOverhead;
      if (!areChunkExtensions(bytes, extensionsAt, end, allowsWhitespace)) return "a chunk extension is malformed";
    }
    this.remaining = size;
    this.state = size === 0 ? "trailer" : "chunk_data";
    return null;
  }

  /** Appends bytes to the incomplete ones, in amortised constant time for each byte. Returns all of them. */
  private appendPartial(chunk: Buffer, from: number, to: number): Buffer {
    const length = this.partialLength + to - from;
    if (this.partial === null || this.partial.length < length) {
      const grown = Buffer.allocUnsafe(2 * length);
      this.partial?.copy(grown, 0, 0, this.partialLength);
      this.partial = grown;
    }
    chunk.copy(this.partial, this.partialLength, from, to);
    this.partialLength = length;
    return this.partial.subarray(0, length);
  }

  private complete(): void {
    if (this.joined !== null) this.flushJoined();
    this.state = "complete";
    this.sink.onEnd();
  }
}

/** For a few bytes, a copy is cheaper than a view. */
function viewOrCopy(chunk: Buffer, from: number, to: number): Uint8Array {
  if (from === 0 && to === chunk.length) return chunk;
  if (to - from > copiedBytesMax) return chunk.subarray(from, to);
  const part = new Uint8Array(to - from);
  chunk.copy(part, 0, from, to);
  return part;
}

/**
 * Frees the memory of a chunk at once; nobody may use it afterwards. Left to the garbage collector, chunks took three times as
 * much memory.
 */
export function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** Longer parts of a body are views of the chunk they arrived in; shorter ones are copies. */
export const copiedBytesMax = 1000;
/** A larger chunk is a part of its own, unless it follows smaller ones. */
const joinedChunkMax = 4096;

/** Whether a Content-Length is a number that is exact in a double. */
export function isContentLength(value: string): boolean {
  return contentLength.test(value);
}

const contentLength = /^\d{1,15}$/;

export const headTooLarge = "the headers are too large";

const invalidChunkSize = "a chunk has no valid size";
const tooMuchOverhead = "the chunk extensions and trailers are too large";
const lineBytesMax = 4096;
/** Enough for any chunk, and exact in a double. */
const sizeDigitsMax = 12;
const lineFeed = 10;
const carriageReturn = 13;
const semicolon = 0x3b;

/**
 * Returns the position after the blank line that ends a head, which may have begun just before `from`; null if it has not
 * arrived. Lines that end with a bare LF are reported at once, because their blank line would never be found.
 */
function headEnd(bytes: Buffer, start: number, from: number, stop: number): number | null | "malformed" {
  const blank = bytes.indexOf(blankLine, Math.max(start, from - blankLine.length + 1));
  if (blank >= 0 && blank + blankLine.length <= stop) return blank + blankLine.length;
  for (let at = bytes.indexOf(lineFeed, from); at >= 0 && at < stop; at = bytes.indexOf(lineFeed, at + 1))
    if (at === start || bytes[at - 1] !== carriageReturn) return "malformed";
  return null;
}

const blankLine = Buffer.from("\r\n\r\n");

/** Nearly all lines of the chunked framing have a few bytes: to look at them takes less time than to call a native search. */
function nextLineFeed(bytes: Buffer, from: number): number {
  const near = Math.min(bytes.length, from + nearBytes);
  for (let at = from; at < near; at++) if (bytes[at] === lineFeed) return at;
  return near === bytes.length ? -1 : bytes.indexOf(lineFeed, near);
}

const nearBytes = 8;

function indexOfReturn(bytes: Buffer, from: number, to: number): number {
  let at = from;
  while (at < to && bytes[at] !== carriageReturn) at++;
  return at;
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
