import { areExtensions, pastBlanks } from "./chunk-extensions.ts";
import { isTrailer, malformedLine, type HeaderCache } from "./header-cache.ts";
import type { HeaderLines } from "./header-lines.ts";

/** Receives what the parser finds after a head, in order: parts of the body, then the end. */
export interface BodySink {
  body(bytes: Uint8Array): void;
  /** The message is complete. */
  end(): void;
}

/** How the length of a body is determined (RFC 9112, 6.3): a number of bytes, by chunks, or by the close of the connection. */
export type Framing = number | "chunked" | "until_close";

/**
 * Parses one HTTP/1.1 message from chunks of any size (RFC 9112). Input that could be read in two ways is rejected instead of
 * guessed at: a message whose end is misjudged lets an attacker prepend bytes to the next request (request smuggling, RFC 9112,
 * 11.2). Everything has a bound.
 */
export abstract class MessageParser<Sink extends BodySink = BodySink> {
  private state: "head" | "length" | "size" | "data" | "data_end" | "trailer" | "until_close" | "over" = "head";
  /** The bytes of an incomplete head or line, at the beginning of a buffer that grows ahead of them. */
  private carry: Buffer | null = null;
  private carried = 0;
  private left = 0;
  /** Bytes of chunk extensions and trailers, which are validated and discarded. */
  private asideBytes = 0;
  private trailers = 0;
  /** Several small chunks that arrived together are joined, and handed to the reader as one part. */
  private gathered: Uint8Array | null = null;
  private gatheredLength = 0;

  constructor(
    protected sink: Sink,
    private readonly heads: HeaderCache,
    private readonly headBytesMax: number,
    /**
     * Whether blanks around a chunk's size and in its extensions are accepted. RFC 9112, 7.1.1 has recipients parse them, and
     * some upstreams send them; in requests they are rejected, because proxies disagree on them.
     */
    private readonly blanks: "refused" | "allowed",
  ) {}

  get isOver(): boolean {
    return this.state === "over";
  }

  /** No byte of the next message has arrived. */
  get isIdle(): boolean {
    return this.state === "head" && this.carried === 0;
  }

  /** A part of the next head has arrived. */
  get isInHead(): boolean {
    return this.state === "head" && this.carried > 0;
  }

  /** What is wrong with the first bytes of a head, as early as that is certain; null if nothing is. */
  protected abstract badBeginning(bytes: Buffer, start: number, stop: number): string | null;

  /** Handles a head. Calls `frame`, unless another head follows (an interim response). Returns what is wrong, or null. */
  protected abstract readHead(head: HeaderLines): string | null;

  /** Sets how the length of the body is determined, before any of it is read. */
  protected frame(framing: Framing): void {
    if (typeof framing === "string") this.state = framing === "chunked" ? "size" : "until_close";
    else {
      this.left = framing;
      this.state = "length";
    }
  }

  /** Ends a message with an empty body, after its head was handled. */
  protected settleFrame(): void {
    if (this.state === "length" && this.left === 0) this.finish();
  }

  /** Prepares for another message on the same connection. */
  protected startOver(): void {
    this.state = "head";
    this.asideBytes = 0;
    this.trailers = 0;
    // An idle connection keeps no buffer.
    this.carry = null;
  }

  /** Parses bytes from a position until the message is complete. Returns the position reached, or what is wrong as a text. */
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

  /** The connection was closed. Returns whether that is a proper end of the message (RFC 9112, 8). */
  protected endByClose(): boolean {
    if (this.state === "until_close") this.finish();
    return this.state === "over";
  }

  private takeHead(chunk: Buffer, from: number): number | string {
    const before = this.carried;
    // Bytes beyond the bound are not looked at: a head that reaches it is too large.
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
    // After the last of the chunks that arrived together there is nothing but its line end.
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

  /** Handles a line of the chunked framing (RFC 9112, 7.1): a chunk size, the end of a chunk, or a trailer. */
  private takeLine(chunk: Buffer, from: number): number | string {
    const feed = chunk.indexOf(lineFeed, from);
    const to = feed < 0 ? chunk.length : feed + 1;
    const length = this.carried + to - from;
    if (this.state === "data_end" && length > 2) return "a chunk is longer than it says";
    if (length > lineBytesMax) return "a line of the chunked body is too long";
    // Usually the whole line is in the chunk and is read in place: a view of it would cost more than the parsing.
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

  /** Trailers are not used, but they are validated: another parser might take a malformed one for the next request. */
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

  /** Appends bytes to the incomplete ones, in amortised constant time for each byte. Returns all of them. */
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

/** For a few bytes, a copy is cheaper than a view. */
function partOf(chunk: Buffer, from: number, to: number): Uint8Array {
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
const gatheredPieceMax = 4096;

export const headTooLarge = "the headers are too large";

const noSize = "a chunk has no valid size";
const tooMuchAside = "the chunk extensions and trailers are too large";
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
