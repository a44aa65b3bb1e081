import { tooManyHeaders } from "../message/head-parser.ts";
import { HeaderCache } from "../message/header-cache.ts";
import { hasConnectionOption, type HeaderLines } from "../message/header-lines.ts";
import { headTooLarge, isContentLength, MessageParser, type BodySink } from "../message/message-parser.ts";

/** Receives what the parser finds in a request, in order: the head, parts of the body, the end. */
export interface RequestSink extends BodySink {
  /** `bodyBytes` is null for a chunked body. */
  onHead(line: RequestLine, headers: HeaderLines, bodyBytes: number | null): void;
}

export interface RequestLine {
  readonly method: string;
  /** Exactly as it was sent. */
  readonly target: string;
  /** HTTP/1.1 and not 1.0: the client understands chunks, and keeps the connection open unless it says otherwise. */
  readonly isHttp11: boolean;
}

/** Whether the client keeps the connection open after this request (RFC 9112, 9.3). */
export function isPersistent({ isHttp11 }: RequestLine, headers: HeaderLines): boolean {
  return isHttp11 && !hasConnectionOption(headers.get("connection"), "close");
}

/** Whether the client waits for `100 Continue` before it sends its body (RFC 9110, 10.1.1). */
export function expectsContinue({ isHttp11 }: RequestLine, headers: HeaderLines, bodyBytes: number | null): boolean {
  return isHttp11 && bodyBytes !== 0 && headers.get("expect")?.toLowerCase() === "100-continue";
}

/** Parses the requests of one connection one after the other; each when `next` was called. */
export class RequestParser extends MessageParser {
  /**
   * The last request line and host that were valid. Successive requests of a connection have the same most often, and checking them
   * again takes 1 us. Those of the first request are not kept: a connection with one long response often carries no second one.
   */
  private last: LastRequest | null = null;
  private isUsed = false;

  constructor(private readonly requestSink: RequestSink) {
    super(requestSink, new HeaderCache(headersMax, "one_length"), headBytesMax, "rejected");
  }

  /** Parses bytes from a position until a request is complete. Returns the position reached, or what is wrong as a text. */
  feed(chunk: Buffer, from: number): number | string {
    return this.execute(chunk, from);
  }

  /** Continues with the next request. */
  next(): void {
    this.reset();
  }

  /** A method begins with a letter, so other protocols are recognised by their first byte. */
  protected checkStart(bytes: Buffer, start: number): string | null {
    const letter = bytes[start]! | 0x20;
    return letter >= 0x61 && letter <= 0x7a ? null : bytes[start] === tlsHandshake ? tlsInsteadOfHttp : notHttp;
  }

  protected handleHead(headers: HeaderLines): string | null {
    const line = this.requestLineOf(headers);
    if (typeof line === "string") return line;
    const { isHttp11 } = line;
    const encoding = headers.get("transfer-encoding");
    const length = headers.get("content-length");
    if (encoding !== undefined) {
      if (length !== undefined) return "it has both a Content-Length and a Transfer-Encoding";
      if (!isHttp11 || encoding.toLowerCase() !== "chunked") return "it has an unsupported Transfer-Encoding";
    } else if (length !== undefined && !isContentLength(length)) return "its Content-Length is not a valid number";
    const bodyBytes = encoding === undefined ? Number(length ?? 0) : null;
    this.setFraming(bodyBytes ?? "chunked");
    this.requestSink.onHead(line, headers, bodyBytes);
    this.endIfEmpty();
    return null;
  }

  /** The request line, once it and the Host header are valid; or what is wrong with them. */
  private requestLineOf(headers: HeaderLines): RequestLine | string {
    const { first } = headers;
    const host = headers.get("host");
    if (this.last !== null && this.last.first === first && this.last.host === host) return this.last.line;
    const line = parseRequestLine(first);
    if (line === null) return laterVersion.test(first) ? unsupportedVersion : notHttp;
    if (host === undefined) {
      if (line.isHttp11) return "it has no Host header";
    } else if (host.includes(",")) return severalHosts;
    else if (!hostWithPort.test(host)) return "its Host header is not a valid host";
    if (this.isUsed && first.length + (host?.length ?? 0) <= rememberedMax) this.last = { first, host, line };
    this.isUsed = true;
    return line;
  }
}

interface LastRequest {
  readonly first: string;
  readonly host: string | undefined;
  readonly line: RequestLine;
}

function parseRequestLine(first: string): RequestLine | null {
  const match = requestLine.exec(first);
  return match === null ? null : { method: match[1]!, target: match[2]!, isHttp11: match[3] === "1" };
}

/** The status for input that could not be parsed: 431 is of RFC 6585, 5. */
export function statusFor(problem: string): number {
  if (problem === unsupportedVersion) return 505;
  return problem === headTooLarge || problem === tooManyHeaders ? 431 : 400;
}

export const severalHosts = "it has more than one Host header";
const tlsInsteadOfHttp = "it is a TLS handshake, but plain HTTP is expected: use http:// in the URL, or set `tls` in the configuration";
const notHttp = "it is not HTTP/1.1";
const unsupportedVersion = "it uses a later version of HTTP, but HTTP/1.1 is expected";
const tlsHandshake = 0x16;
const headBytesMax = 16 * 1024;
const headersMax = 100;
/** An idle connection must not keep a long URL in memory. */
const rememberedMax = 512;
const requestLine = /^([A-Za-z][A-Za-z-]*) ([\x21-\x7e\x80-\xff]+) HTTP\/1\.([01])$/;
const laterVersion = /^[A-Za-z][A-Za-z-]* [\x21-\x7e\x80-\xff]+ HTTP\/[2-9](?:\.\d)?$/;
/**
 * A host name or an address, and a port (RFC 9110, 7.2; RFC 3986, 3.2.2). A comma is allowed in a name, but is taken as a sign
 * of two Host headers (RFC 9112, 3.2).
 */
const hostWithPort = /^(?:[A-Za-z0-9._~%!$&'()*+;=-]*|\[[A-Za-z0-9._~%!$&'()*+;=:-]+\])(?::\d*)?$/;
