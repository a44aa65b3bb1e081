import { oneLine } from "../wire/header-value.ts";

/** What a request is answered with, for the connection to write. */
export interface HttpAnswer {
  readonly status: number;
  readonly head: AnswerHead;
  readonly body: Uint8Array | string | AnswerStream;
}

/** A body that is not there yet. It writes by itself from the moment it is given a way out. */
export interface AnswerStream {
  begin(out: WayOut): void;
  /** The client left. */
  gone(): void;
  /** The client has taken what was written before. */
  room(): void;
  /** Says something that means nothing. Returns whether there is such a thing. */
  murmur(): boolean;
}

/** Where a stream writes to. */
export interface WayOut {
  /** Returns whether there is room for more; if not, the stream is told when there is. */
  write(bytes: Uint8Array): boolean;
  /** Tries once more to send what waits. Returns when any of it was last taken. */
  tookMs(): number;
  /** The answer is complete. */
  endStream(): void;
  /** What was written is followed by no proper end: the client can tell. `gently`: it may still take what was written. */
  cut(gently: boolean): void;
}

/** The headers of an answer, ready to be written. Cheap, since every answer has some. */
export class AnswerHead {
  cacheControl = "no-store";
  /** The connection ends with this answer. */
  closes = false;
  private lines: string;

  constructor(requestId: string) {
    this.lines = requestId === "" ? always : `${always}x-request-id: ${requestId}\r\n`;
  }

  /** No name may be added twice. */
  add(name: string, value: string): void {
    this.lines += `${name}: ${oneLine(value, "?")}\r\n`;
  }

  /** All of it but what tells how the body is framed. */
  text(): string {
    return `${this.lines}cache-control: ${this.cacheControl}\r\n`;
  }
}

const always = "vary: authorization\r\nx-content-type-options: nosniff\r\n";

export function statusLine(status: number): string {
  return `HTTP/1.1 ${status} ${reasons[status] ?? "Other"}\r\n`;
}

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  499: "Client Closed Request",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};
