import { HeaderCache } from "../message/header-cache.ts";
import { hasConnectionOption, type HeaderLines } from "../message/header-lines.ts";
import { MessageParser, type BodySink } from "../message/message-parser.ts";

/** What a parser finds in a response, told in order: one head, parts of the body, the end. */
export interface ResponseSink extends BodySink {
  /** `persistent`: the upstream keeps the connection open after this response. */
  head(status: number, headers: HeaderLines, persistent: boolean): void;
}

/** Reads the HTTP/1.1 responses of one connection, one after the other. */
export class ResponseParser extends MessageParser<ResponseSink> {
  private interims = 0;
  /** The last status line and what it says: an upstream says the same over and over. */
  private line = "";
  private said: Status | null = null;
  /** Bytes came behind the end: whatever they are, the connection cannot be trusted with another request. */
  hasExcessBytes = false;

  constructor(sink: ResponseSink) {
    super(sink, new HeaderCache(headersMax), headBytesMax, "allowed");
  }

  /** Another response follows, for somebody else. */
  next(sink: ResponseSink): void {
    this.sink = sink;
    this.interims = 0;
    this.startOver();
  }

  /** Takes the next bytes. Returns what is wrong with them, or null. */
  feed(chunk: Buffer): string | null {
    const taken = this.take(chunk, 0);
    if (typeof taken === "string") return `the response cannot be read: ${taken}`;
    this.hasExcessBytes ||= taken < chunk.length;
    return null;
  }

  /** The connection was closed. Returns what was missing, or null where that is a proper end. */
  close(): string | null {
    return this.endByClose() ? null : "the connection was closed before the response was complete";
  }

  /** It may be told at once that this is not HTTP: nobody waits for the rest of it then. */
  protected badBeginning(bytes: Buffer, start: number, stop: number): string | null {
    for (let at = 0; at < beginning.length && start + at < stop; at++) if (bytes[start + at] !== beginning[at]) return notHttp;
    return null;
  }

  protected readHead(headers: HeaderLines): string | null {
    const status = this.statusOf(headers.first);
    if (status === null) return notHttp;
    const { code, isHttp11 } = status;
    if (code === 101) return "the upstream switched protocols";
    if (code < 200) {
      this.interims++;
      return this.interims > interimsMax ? "too many interim responses" : null;
    }
    const encoding = headers.get("transfer-encoding");
    const length = headers.get("content-length");
    if (encoding !== undefined && length !== undefined) return "it has both a length and a transfer encoding";
    if (encoding !== undefined && encoding.toLowerCase() !== "chunked") return "it has an unknown transfer encoding";
    if (length !== undefined && !/^\d{1,15}$/.test(length)) return "it has no valid length";
    const connection = headers.get("connection");
    const framed = encoding !== undefined || length !== undefined || isBodiless(code);
    // The old version knows no chunks, and closes unless it says otherwise.
    const keeps = isHttp11 || (encoding === undefined && hasConnectionOption(connection, "keep-alive"));
    const persistent = framed && keeps && !hasConnectionOption(connection, "close");
    this.frame(isBodiless(code) ? 0 : encoding !== undefined ? "chunked" : framed ? Number(length) : "until_close");
    this.sink.head(code, headers, persistent);
    this.settleFrame();
    return null;
  }

  private statusOf(line: string): Status | null {
    if (line === this.line) return this.said;
    const said = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/.exec(line);
    const status = said === null ? null : { code: Number(said[2]), isHttp11: said[1] === "1" };
    if (line.length > knownLineMax) return status;
    this.line = line;
    this.said = status;
    return status;
  }
}

interface Status {
  readonly code: number;
  /** It knows chunks, and keeps its connection unless it says otherwise. */
  readonly isHttp11: boolean;
}

const notHttp = "it is not HTTP";
const headBytesMax = 32 * 1024;
const knownLineMax = 64;
const interimsMax = 16;
const headersMax = 256;
const beginning = Buffer.from("HTTP/1.");

function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}
