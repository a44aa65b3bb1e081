/** What a parser finds in a response, told in order: one head, parts of the body, the end. */
export interface ResponseSink {
  head(head: ResponseHead): void;
  body(bytes: Uint8Array): void;
  /** The response is complete. */
  end(): void;
}

export interface ResponseHead {
  readonly status: number;
  /** By lower-case name; repeated headers are joined by a comma. */
  readonly headers: ReadonlyMap<string, string>;
  /** The upstream keeps the connection open after this response. */
  readonly persistent: boolean;
}

/**
 * Reads one HTTP/1.1 response, however the network cut it (RFC 9112). What could be read in two ways is refused rather
 * than guessed at, since one response read wrongly makes the next one somebody else's. Everything has a bound.
 */
export class ResponseParser {
  private state: "head" | "length" | "size" | "data" | "data_end" | "trailer" | "until_close" | "over" = "head";
  /** Bytes of a head or a line that is not complete yet, at the beginning of a memory that grows ahead of them. */
  private carry: Buffer | null = null;
  private carried = 0;
  private left = 0;
  private interims = 0;
  private trailerBytes = 0;
  /** Bytes came behind the end: whatever they are, the connection cannot be trusted with another request. */
  tainted = false;

  constructor(private readonly sink: ResponseSink) {}

  /** Takes the next bytes. Returns what is wrong with them, or null. */
  feed(chunk: Buffer): string | null {
    let at = 0;
    while (at < chunk.length) {
      switch (this.state) {
        case "length":
        case "data":
          at = this.takeBody(chunk, at);
          break;
        case "until_close":
          this.sink.body(at === 0 ? chunk : chunk.subarray(at));
          return null;
        case "over":
          this.tainted = true;
          return null;
        default: {
          const next = this.state === "head" ? this.takeHead(chunk, at) : this.takeLine(chunk, at);
          if (typeof next === "string") return next;
          at = next;
        }
      }
    }
    return null;
  }

  /** The connection was closed. Returns what was missing, or null where that is a proper end. */
  close(): string | null {
    if (this.state === "over") return null;
    if (this.state !== "until_close") return "the connection was closed before the response was complete";
    this.finish();
    return null;
  }

  private takeHead(chunk: Buffer, from: number): number | string {
    const before = this.carried;
    // What lies beyond the bound need not be looked at: a head that reaches it is too large.
    const to = Math.min(chunk.length, from + headBytesMax - before);
    const bytes = before === 0 ? chunk : this.keep(chunk, from, to);
    const start = before === 0 ? from : 0;
    const stop = before === 0 ? to : bytes.length;
    if (!beginsAsHttp(bytes, start, stop)) return "the response is not HTTP";
    const end = headEnd(bytes, start, start + before, stop);
    if (end === "malformed") return "a line of the head does not end as it should";
    if (end === null) {
      if (stop - start === headBytesMax) return "the head of the response is too large";
      if (before === 0) this.keep(chunk, from, to);
      return to;
    }
    this.carried = 0;
    return this.readHead(bytes.toString("latin1", start, end - 4)) ?? (before === 0 ? end : from + end - before);
  }

  private readHead(text: string): string | null {
    const lines = text.split("\r\n");
    const status = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/.exec(lines[0]!);
    if (status === null) return "the response is not HTTP";
    if (unprintable.test(text)) return "the response has a malformed header";
    const code = Number(status[2]);
    const headers = headersOf(lines);
    if (typeof headers === "string") return headers;
    if (code === 101) return "the upstream switched protocols";
    if (code < 200) {
      this.interims++;
      return this.interims > interimsMax ? "too many interim responses" : null;
    }
    const encoding = headers.get("transfer-encoding");
    const length = headers.get("content-length");
    if (encoding !== undefined && length !== undefined) return "the response has both a length and a transfer encoding";
    if (encoding !== undefined && encoding.toLowerCase() !== "chunked") return "the response has an unknown transfer encoding";
    if (length !== undefined && !/^\d{1,15}$/.test(length)) return "the response has no valid length";
    const connection = headers.get("connection")?.toLowerCase() ?? "";
    const framed = encoding !== undefined || length !== undefined || isBodiless(code);
    // The old version knows no chunks, and closes unless it says otherwise.
    const keeps = status[1] === "1" || (encoding === undefined && connection.includes("keep-alive"));
    const persistent = framed && keeps && !connection.includes("close");
    this.left = isBodiless(code) ? 0 : Number(length ?? 0);
    this.state = encoding !== undefined && !isBodiless(code) ? "size" : framed ? "length" : "until_close";
    this.sink.head({ status: code, headers, persistent });
    if (this.state === "length" && this.left === 0) this.finish();
    return null;
  }

  private takeBody(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.left);
    this.left -= end - at;
    this.sink.body(at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end));
    if (this.left > 0) return end;
    if (this.state === "length") this.finish();
    else this.state = "data_end";
    return end;
  }

  /** A line of the chunked framing: a size, the end of a chunk, a trailer. */
  private takeLine(chunk: Buffer, from: number): number | string {
    const feed = chunk.indexOf(lineFeed, from);
    const to = feed < 0 ? chunk.length : feed + 1;
    const length = this.carried + to - from;
    if (this.state === "data_end" && length > 2) return "a chunk is longer than it says";
    if (length > lineBytesMax) return "a line of the chunked body is too long";
    const line = this.carried === 0 && feed >= 0 ? chunk.subarray(from, to) : this.keep(chunk, from, to);
    if (feed < 0) return to;
    this.carried = 0;
    if (length < 2 || line.indexOf(carriageReturn) !== length - 2) return "a line of the chunked body does not end as it should";
    return this.readLine(line) ?? to;
  }

  private readLine(line: Uint8Array): string | null {
    if (this.state === "data_end") {
      this.state = "size";
      return null;
    }
    if (this.state === "trailer") {
      this.trailerBytes += line.length;
      if (this.trailerBytes > headBytesMax) return "the trailers are too large";
      if (line.length === 2) this.finish();
      return null;
    }
    const size = sizeOf(line);
    if (size < 0) return "a chunk has no valid size";
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
    this.state = "over";
    this.sink.end();
  }
}

const headBytesMax = 32 * 1024;
const lineBytesMax = 4096;
const interimsMax = 16;
const headersMax = 256;
/** More than enough for any chunk, and exact in a double. */
const sizeDigitsMax = 12;
const lineFeed = 10;
const carriageReturn = 13;
const semicolon = 0x3b;
const space = 0x20;
const tab = 9;

function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/** As far as it can be told yet. */
function beginsAsHttp(bytes: Buffer, start: number, stop: number): boolean {
  for (let at = 0; at < beginning.length && start + at < stop; at++) if (bytes[start + at] !== beginning[at]) return false;
  return true;
}

const beginning = Buffer.from("HTTP/1.");

/** Where the blank line is over that ends a head, looking for it from a place on; null where it has not come yet. */
function headEnd(bytes: Buffer, start: number, from: number, stop: number): number | null | "malformed" {
  for (let at = bytes.indexOf(lineFeed, from); at >= 0 && at < stop; at = bytes.indexOf(lineFeed, at + 1)) {
    if (at === start || bytes[at - 1] !== carriageReturn) return "malformed";
    if (at > start + 2 && bytes[at - 2] === lineFeed) return at + 1;
  }
  return null;
}

function headersOf(lines: readonly string[]): Map<string, string> | string {
  if (lines.length > headersMax + 1) return "the response has too many headers";
  const headers = new Map<string, string>();
  for (let at = 1; at < lines.length; at++) {
    const line = lines[at]!;
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    // A folded line or a space before the colon could hide a header from one reader or the other.
    if (colon < 1 || !isToken(name)) return "the response has a malformed header";
    const value = withoutBlanks(line, colon + 1);
    const before = headers.get(name);
    if (before === undefined) headers.set(name, value);
    else if (name !== "content-length") headers.set(name, `${before}, ${value}`);
    else if (before !== value) return "the response has two lengths";
  }
  return headers;
}

/** Upstreams send the same names over and over: one that was checked is known. */
const knownNames = new Set<string>();
const knownNamesMax = 1024;

function isToken(name: string): boolean {
  if (knownNames.has(name)) return true;
  if (!token.test(name)) return false;
  if (knownNames.size < knownNamesMax) knownNames.add(name);
  return true;
}

const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** What one reader or the other could take for the end of a line. Line feeds have been looked at before. */
const unprintable = /\0|\r(?!\n)/;

/** Spaces and tabs only: whatever else the language takes for blank is part of the value. */
function withoutBlanks(line: string, from: number): string {
  let start = from;
  let end = line.length;
  while (start < end && isBlank(line.charCodeAt(start))) start++;
  while (end > start && isBlank(line.charCodeAt(end - 1))) end--;
  return line.slice(start, end);
}

function isBlank(code: number | undefined): boolean {
  return code === space || code === tab;
}

/** The size a chunk announces, whatever extension follows it; -1 where there is none. */
function sizeOf(line: Uint8Array): number {
  let size = 0;
  let digits = 0;
  for (let digit = hexDigit(line[0]!); digit >= 0; digit = hexDigit(line[digits]!)) {
    size = size * 16 + digit;
    digits++;
  }
  let after = digits;
  while (isBlank(line[after])) after++;
  const ends = line[after] === carriageReturn || line[after] === semicolon;
  return digits > 0 && digits <= sizeDigitsMax && ends ? size : -1;
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
