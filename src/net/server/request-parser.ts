import { HeaderCache, tooManyHeaders } from "../message/header-cache.ts";
import { hasConnectionOption, type HeaderLines } from "../message/header-lines.ts";
import { headTooLarge, MessageParser, type BodySink } from "../message/message-parser.ts";

/** Receives what the parser finds in a request, in order: the head, parts of the body, the end. */
export interface RequestSink extends BodySink {
  /** `bodyBytes` is null for a chunked body. */
  head(line: RequestLine, headers: HeaderLines, bodyBytes: number | null): void;
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
  /** The last request line and its parsed form: it is usually the same one. */
  private first = "";
  private line: RequestLine | null = null;
  /** The last Host that was found valid. */
  private host = "";

  constructor(private readonly requestSink: RequestSink) {
    super(requestSink, new HeaderCache(headersMax, "one_length"), headBytesMax, "refused");
  }

  /** Parses bytes from a position until a request is complete. Returns the position reached, or what is wrong as a text. */
  feed(chunk: Buffer, from: number): number | string {
    return this.take(chunk, from);
  }

  /** Continues with the next request. */
  next(): void {
    this.startOver();
  }

  /** A method begins with a letter, so other protocols are recognised by their first byte. */
  protected badBeginning(bytes: Buffer, start: number): string | null {
    const letter = bytes[start]! | 0x20;
    return letter >= 0x61 && letter <= 0x7a ? null : bytes[start] === tlsHandshake ? spokenTls : notHttp;
  }

  protected readHead(headers: HeaderLines): string | null {
    const { first } = headers;
    if (first !== this.first) {
      this.first = first;
      this.line = lineOf(first);
    }
    const { line } = this;
    if (line === null) return laterVersion.test(first) ? notThisVersion : notHttp;
    const { isHttp11 } = line;
    const host = headers.get("host");
    if (host === undefined) {
      if (isHttp11) return "it has no Host header";
    } else if (host !== this.host) {
      if (host.includes(",")) return severalHosts;
      if (!hostWithPort.test(host)) return "its Host header is not a valid host";
      this.host = host;
    }
    const encoding = headers.get("transfer-encoding");
    const length = headers.get("content-length");
    if (encoding !== undefined) {
      if (length !== undefined) return "it has both a Content-Length and a Transfer-Encoding";
      if (!isHttp11 || encoding.toLowerCase() !== "chunked") return "it has an unsupported Transfer-Encoding";
    } else if (length !== undefined && !lengthDigits.test(length)) return "its Content-Length is not a valid number";
    const bodyBytes = encoding === undefined ? Number(length ?? 0) : null;
    this.frame(bodyBytes ?? "chunked");
    this.requestSink.head(line, headers, bodyBytes);
    this.settleFrame();
    return null;
  }
}

function lineOf(first: string): RequestLine | null {
  const said = requestLine.exec(first);
  return said === null ? null : { method: said[1]!, target: said[2]!, isHttp11: said[3] === "1" };
}

/** The status for input that could not be parsed: 431 is of RFC 6585, 5. */
export function statusFor(problem: string): number {
  if (problem === notThisVersion) return 505;
  return problem === headTooLarge || problem === tooManyHeaders ? 431 : 400;
}

export const severalHosts = "it has more than one Host header";
const spokenTls = "it is a TLS handshake, but plain HTTP is expected: use http:// in the URL, or a proxy that terminates TLS";
const notHttp = "it is not HTTP/1.1";
const notThisVersion = "it uses a later version of HTTP, but HTTP/1.1 is expected";
const tlsHandshake = 0x16;
const headBytesMax = 16 * 1024;
const headersMax = 100;
const requestLine = /^([A-Za-z][A-Za-z-]*) ([\x21-\x7e\x80-\xff]+) HTTP\/1\.([01])$/;
const laterVersion = /^[A-Za-z][A-Za-z-]* [\x21-\x7e\x80-\xff]+ HTTP\/[2-9](?:\.\d)?$/;
/**
 * A host name or an address, and a port (RFC 9110, 7.2; RFC 3986, 3.2.2). A comma is allowed in a name, but is taken as a sign
 * of two Host headers (RFC 9112, 3.2).
 */
const hostWithPort = /^(?:[A-Za-z0-9._~%!$&'()*+;=-]*|\[[A-Za-z0-9._~%!$&'()*+;=:-]+\])(?::\d*)?$/;
const lengthDigits = /^\d{1,15}$/;
