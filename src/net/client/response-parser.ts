import { HeaderCache } from "../message/header-cache.ts";
import { hasConnectionOption, type HeaderLines } from "../message/header-lines.ts";
import { isContentLength, MessageParser, type BodySink } from "../message/message-parser.ts";

/** Receives what the parser finds in a response, in order: one head, parts of the body, the end. */
export interface ResponseSink extends BodySink {
  /** `isPersistent`: the upstream keeps the connection open after this response. */
  onHead(status: number, headers: HeaderLines, isPersistent: boolean): void;
}

/** Parses the HTTP/1.1 responses of one connection one after the other. */
export class ResponseParser extends MessageParser<ResponseSink> {
  private interimResponses = 0;
  /** Bytes arrived after the end of the response, so the connection cannot be reused (RFC 9112, 9.2). */
  hasExcessBytes = false;
  private lastLine = "";
  private lastStatus: StatusLine | null = null;

  constructor(sink: ResponseSink) {
    super(sink, new HeaderCache(headersMax), headBytesMax, "allowed");
  }

  /** Prepares for the response to another request. */
  next(sink: ResponseSink): void {
    this.sink = sink;
    this.interimResponses = 0;
    this.reset();
  }

  /** Parses the next bytes. Returns what is wrong, or null. */
  feed(chunk: Buffer): string | null {
    const position = this.execute(chunk, 0);
    if (typeof position === "string") return `the response cannot be read: ${position}`;
    this.hasExcessBytes ||= position < chunk.length;
    return null;
  }

  /** The connection was closed. Returns what is missing, or null if that is a proper end. */
  close(): string | null {
    return this.finishOnClose() ? null : "the connection was closed before the response was complete";
  }

  /** Reports at once if this is not HTTP, instead of waiting for the rest. */
  protected checkStart(bytes: Buffer, start: number, stop: number): string | null {
    for (let at = 0; at < beginning.length && start + at < stop; at++) if (bytes[start + at] !== beginning[at]) return notHttp;
    return null;
  }

  protected handleHead(headers: HeaderLines): string | null {
    const status = this.statusOf(headers.first);
    if (status === null) return notHttp;
    const { code, isHttp11 } = status;
    if (code === 101) return "the upstream switched protocols";
    if (code < 200) {
      this.interimResponses++;
      return this.interimResponses > interimResponsesMax ? "too many interim responses" : null;
    }
    const encoding = headers.get("transfer-encoding");
    const length = headers.get("content-length");
    if (encoding !== undefined && length !== undefined) return "it has both a length and a transfer encoding";
    if (encoding !== undefined && encoding.toLowerCase() !== "chunked") return "it has an unknown transfer encoding";
    if (length !== undefined && !isContentLength(length)) return "it has no valid length";
    const connection = headers.get("connection");
    const isFramed = encoding !== undefined || length !== undefined || isBodiless(code);
    // HTTP/1.0 has no chunks (RFC 9112, 6.1), and closes unless it says `keep-alive`.
    const keepsOpen = isHttp11 || (encoding === undefined && hasConnectionOption(connection, "keep-alive"));
    const isPersistent = isFramed && keepsOpen && !hasConnectionOption(connection, "close");
    this.setFraming(isBodiless(code) ? 0 : encoding !== undefined ? "chunked" : isFramed ? Number(length) : "until_close");
    this.sink.onHead(code, headers, isPersistent);
    this.endIfEmpty();
    return null;
  }

  /** Successive responses of a connection have the same status line most often; parsing it again takes 0.4 us. */
  private statusOf(line: string): StatusLine | null {
    if (line !== this.lastLine) {
      this.lastLine = line;
      this.lastStatus = parseStatusLine(line);
    }
    return this.lastStatus;
  }
}

function parseStatusLine(line: string): StatusLine | null {
  const match = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/.exec(line);
  return match === null ? null : { code: Number(match[2]), isHttp11: match[1] === "1" };
}

interface StatusLine {
  readonly code: number;
  /** HTTP/1.1 and not 1.0: chunks are understood, and the connection is kept open unless the upstream says otherwise. */
  readonly isHttp11: boolean;
}

const notHttp = "it is not HTTP";
const headBytesMax = 32 * 1024;
const interimResponsesMax = 16;
const headersMax = 256;
const beginning = Buffer.from("HTTP/1.");

function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}
