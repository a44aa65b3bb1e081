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

/** Where a head is written to, piece by piece. */
export interface HeadSink {
  put(bytes: Uint8Array): void;
  /** Each of its characters is one byte. */
  putText(text: string): void;
}

/** The headers of an answer that not every answer has. Nothing is made of them before they are written. */
export class AnswerHead {
  /** The media type of the body. */
  type: string | null = null;
  cacheControl: string = noStore;
  /** The connection ends with this answer. */
  closes = false;
  private lines = "";

  constructor(readonly requestId: string) {}

  /** No name may be added twice. */
  add(name: string, value: string): void {
    this.lines += `${name}: ${oneLine(value, "?")}\r\n`;
  }

  /** Lines of our own making, each with its end. */
  addLines(lines: string): void {
    this.lines += lines;
  }

  /** All of it but what tells how the body is framed. */
  writeTo(out: HeadSink): void {
    if (this.requestId !== "") {
      out.put(requestIdName);
      out.putText(this.requestId);
      out.put(lineEnd);
    }
    if (this.lines !== "") out.putText(this.lines);
    if (this.type === json) out.put(jsonLine);
    else if (this.type !== null) out.putText(`content-type: ${oneLine(this.type, "?")}\r\n`);
    if (this.cacheControl === noStore) out.put(noStoreLine);
    else out.putText(`cache-control: ${this.cacheControl}\r\n`);
  }
}

/** What nearly every answer says is there to be copied. */
const json = "application/json";
const noStore = "no-store";
const requestIdName = Buffer.from("x-request-id: ");
const jsonLine = Buffer.from(`content-type: ${json}\r\n`);
const noStoreLine = Buffer.from(`cache-control: ${noStore}\r\n`);
const lineEnd = Buffer.from("\r\n");
