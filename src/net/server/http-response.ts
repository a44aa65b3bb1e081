import type { RateLimitStatus } from "../../gateway/admission/limiter.ts";
import { oneLine } from "../message/header-lines.ts";
import { putRateLimitHeaders } from "./rate-limit-headers.ts";

/** What a request is answered with, for the connection to write. */
export interface HttpResponse {
  readonly status: number;
  readonly head: ResponseHead;
  readonly body: Uint8Array | string | ResponseBodyStream;
}

/** A body that is not there yet. It writes by itself from the moment it is given a way out. */
export interface ResponseBodyStream {
  begin(out: ResponseWriter): void;
  /** The client left. */
  gone(): void;
  /** The client has taken what was written before. */
  room(): void;
  /** Says something that means nothing. Returns whether there is such a thing. */
  sendKeepAlive(): boolean;
}

/** Where a stream writes to. */
export interface ResponseWriter {
  /** Returns whether there is room for more; if not, the stream is told when there is. */
  write(bytes: Uint8Array): boolean;
  /** Of what was written, with its framing: what the system has not taken yet. */
  readonly unsentBytes: number;
  /** Tries once more to send what waits. Returns when any of it was last taken. */
  tookMs(): number;
  /** The answer is complete. */
  endStream(): void;
  /** What was written is followed by no proper end: the client can tell. `gently`: it may still take what was written. */
  cut(gently: boolean): void;
}

/** Where a head is written to, piece by piece. */
export interface HeadSink {
  put(bytes: Uint8Array): void;
  /** Each of its characters is one byte. */
  putText(text: string): void;
  /** A whole number, in decimal. */
  putNumber(value: number): void;
}

/**
 * The headers of an answer that not every answer has. Nothing is made of them before they are written, and each begins with the end
 * of the line before it.
 */
export class ResponseHead {
  /** The media type of the body. */
  type: string | null = null;
  cacheControl: string = noStore;
  /** How the key that asked stands. */
  rateLimitStatus: RateLimitStatus | null = null;
  /** The connection ends with this answer. */
  closes = false;
  private lines = "";

  constructor(readonly requestId: string) {}

  /** No name may be added twice. */
  add(name: string, value: string): void {
    this.lines += headerLine(name, value);
  }

  /** Lines as `add` makes them, for what many answers say alike. */
  addLines(lines: string): void {
    this.lines += lines;
  }

  /** All of it but what tells how the body is framed, from the request's id on; `sized`: with the name of the length that follows. */
  writeTo(out: HeadSink, sized: boolean): void {
    out.putText(this.requestId);
    if (this.rateLimitStatus !== null) putRateLimitHeaders(out, this.rateLimitStatus);
    if (this.lines !== "") out.putText(this.lines);
    if (this.type === json && this.cacheControl === noStore) return out.put(sized ? usualSized : usual);
    if (this.type !== null) out.putText(headerLine("content-type", this.type));
    out.putText(`\r\ncache-control: ${this.cacheControl}`);
    if (sized) out.put(lengthName);
  }
}

/** A line that begins with the end of the one before. */
export function headerLine(name: string, value: string): string {
  return `\r\n${name}: ${oneLine(value, "?")}`;
}

/** What nearly every answer says is there to be copied, in one piece. */
const json = "application/json";
const noStore = "no-store";
const usual = Buffer.from(`\r\ncontent-type: ${json}\r\ncache-control: ${noStore}`);
const lengthName = Buffer.from("\r\ncontent-length: ");
const usualSized = Buffer.concat([usual, lengthName]);
