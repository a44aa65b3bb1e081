import { STATUS_CODES } from "node:http";
import type { Ask } from "./ask.ts";
import { encoderOf, type Encoder } from "./encoder.ts";
import type { Attempt } from "./ledger.ts";
import type { Framing, Manner } from "./manner.ts";
import { header, type ChaosRequest } from "./request.ts";
import type { Wire } from "./wire.ts";

/** One request being answered: the means a fault has to say something, nothing, or the wrong thing. */
export class Exchange {
  readonly instance: string;
  readonly request: ChaosRequest;
  readonly ask: Ask;
  readonly attempt: Attempt;
  readonly manner: Manner;
  readonly operation: Operation;
  /** What happens to the connection when another request begins to arrive on it. */
  onReuse: "serve" | "close" | "reset" = "serve";
  readonly #wire: Wire;
  readonly #released: Promise<void>;
  #held: Uint8Array[] = [];
  #framing: Framing = "length";
  #encoder: Encoder = encoderOf([]);
  #chunksSent = 0;
  #closes: boolean;

  constructor(parts: ExchangeParts) {
    this.instance = parts.instance;
    this.request = parts.request;
    this.ask = parts.ask;
    this.attempt = parts.attempt;
    this.manner = parts.manner;
    this.#wire = parts.wire;
    this.#released = parts.released;
    this.operation = parts.operation;
    this.#closes = parts.isPart || /close/i.test(header(parts.request, "connection") ?? "");
  }

  get ended(): boolean {
    return this.attempt.endedBy !== null;
  }

  /** Whether the connection may carry another request. */
  get reusable(): boolean {
    return this.attempt.endedBy === "complete" && !this.#closes;
  }

  /** Bytes as they are, outside of any framing; text is taken as Latin-1. */
  async send(content: Uint8Array | string, byteMs = 0): Promise<void> {
    const bytes = typeof content === "string" ? Buffer.from(content, "latin1") : content;
    if (this.manner.packet === "whole") {
      this.#held.push(bytes);
    } else if (byteMs > 0 || this.manner.packet === "byte") {
      for (let at = 0; at < bytes.length; at += 1) {
        await this.#put(bytes.subarray(at, at + 1));
        await this.#wire.pause(byteMs);
      }
    } else {
      await this.#put(bytes);
    }
  }

  /** The status line and headers, and with them how the body will be framed. */
  async open(opening: Opening): Promise<void> {
    const { status = 200, contentType, length, headers = [] } = opening;
    this.attempt.statusSent = status;
    const fitting = length === undefined ? "chunked" : "length";
    this.#framing = this.manner.framing === "fitting" ? fitting : this.manner.framing;
    this.#encoder = encoderOf(length === undefined ? this.manner.codings : []);
    const type = this.manner.contentType === undefined ? contentType : this.manner.contentType;
    const lines: (readonly [string, string])[] = [...headers, ...this.manner.headers];
    if (!lines.some(([name]) => name.toLowerCase() === "date")) {
      lines.unshift(["Date", new Date().toUTCString()]);
    }
    if (type !== null) lines.push(["Content-Type", type]);
    if (!bodyless(status)) lines.push(...this.#codingHeader(), ...this.#framingHeader(length));
    if (this.#closes) lines.push(["Connection", "close"]);
    const interims = this.manner.interims.map((interim) => headOf(interim, []));
    await this.send(interims.join("") + headOf(status, lines), this.manner.headByteMs);
  }

  /** A part of the body, encoded and framed. */
  async sendBody(bytes: Uint8Array, byteMs = 0): Promise<void> {
    await this.#sendFramed(await this.#encoder.push(bytes), byteMs);
  }

  /** Ends the answer as the framing demands; the connection lives on where that is possible. */
  async complete(): Promise<void> {
    await this.#sendFramed(await this.#encoder.finish(), 0);
    if (this.#framing === "chunked") await this.send("0\r\n\r\n");
    await this.send(this.manner.postscript);
    await this.#flush();
    if (this.#framing === "length" && this.manner.lengthSkew > 0) return this.cut();
    if (this.#closes) this.#wire.finish();
    this.#end("complete");
  }

  /** A whole answer at once. */
  async reply(reply: Reply): Promise<void> {
    const { status = 200, contentType, headers = [] } = reply;
    const plain = typeof reply.body === "string" ? Buffer.from(reply.body) : reply.body;
    const encoder = encoderOf(this.manner.codings);
    const body = Buffer.concat([await encoder.push(plain), await encoder.finish()]);
    await this.open({ status, contentType, headers, length: body.length });
    if (bodyless(status)) this.#framing = "length";
    else await this.#sendFramed(body, 0);
    await this.complete();
  }

  /** FIN, wherever the answer stands. */
  async cut(): Promise<void> {
    await this.#flush();
    this.#wire.finish();
    this.#end("fault");
  }

  /** The same below TLS: the peer is not told that this is the end. */
  async cutBelow(): Promise<void> {
    await this.#flush();
    await this.#wire.finishBelow();
    this.#end("fault");
  }

  /** RST, wherever the answer stands. */
  async reset(): Promise<void> {
    await this.#flush();
    await this.#wire.reset();
    this.#end("fault");
  }

  async pause(ms: number): Promise<void> {
    await this.#wire.pause(ms);
  }

  async untilReleased(): Promise<void> {
    await this.#wire.until(this.#released);
  }

  /** Takes nothing more from the peer for a while, and then all of it without a look. */
  async stopReading(ms: number): Promise<void> {
    this.#wire.stopReading();
    await this.#wire.pause(ms);
    this.#wire.resumeReading();
  }

  /** Keeps the connection and says nothing more until the peer leaves. */
  async hold(): Promise<never> {
    await this.#flush();
    return this.#wire.untilDeparture();
  }

  async #sendFramed(bytes: Uint8Array, byteMs: number): Promise<void> {
    if (bytes.length === 0) return;
    if (this.#framing !== "chunked") return this.send(bytes, byteMs);
    const extension = this.#chunksSent === 0 ? this.manner.firstChunkExtensionBytes : 0;
    const size = bytes.length.toString(16) + (extension === 0 ? "" : `;${"x".repeat(extension)}`);
    this.#chunksSent += 1;
    await this.send(Buffer.concat([Buffer.from(`${size}\r\n`), bytes, endOfChunk]), byteMs);
  }

  #codingHeader(): [string, string][] {
    const label = this.manner.codingLabel ?? this.manner.codings.join(", ");
    return label === "" ? [] : [["Content-Encoding", label]];
  }

  #framingHeader(length: number | undefined): [string, string][] {
    switch (this.#framing) {
      case "chunked":
        return [["Transfer-Encoding", "chunked"]];
      case "length":
        return [["Content-Length", String((length ?? 0) + this.manner.lengthSkew)]];
      case "close":
        this.#closes = true;
        return [];
    }
  }

  async #flush(): Promise<void> {
    const held = Buffer.concat(this.#held);
    this.#held = [];
    await this.#put(held);
  }

  async #put(bytes: Uint8Array): Promise<void> {
    await this.#wire.write(bytes);
    if (bytes.length === 0) return;
    this.attempt.bytesSent += bytes.length;
    this.attempt.lastSentAt = performance.now();
  }

  #end(by: NonNullable<Attempt["endedBy"]>): void {
    this.attempt.endedBy ??= by;
    this.attempt.closedAt ??= performance.now();
  }
}

/** What is asked for; `other` is the list of models, and what nobody knows. */
export type Operation = "chat" | "speech" | "transcription" | "other";

export interface ExchangeParts {
  readonly instance: string;
  readonly operation: Operation;
  /** The rest of the request is still on its way, so that nothing can follow it on this connection. */
  readonly isPart: boolean;
  readonly request: ChaosRequest;
  readonly ask: Ask;
  readonly attempt: Attempt;
  readonly manner: Manner;
  readonly wire: Wire;
  /** When the test wants the answers that wait for its word. */
  readonly released: Promise<void>;
}

export interface Opening {
  readonly status?: number;
  readonly contentType: string | null;
  /** Of the encoded body, where it is known beforehand. */
  readonly length?: number;
  readonly headers?: readonly (readonly [name: string, value: string])[];
}

export interface Reply extends Omit<Opening, "length"> {
  readonly body: Uint8Array | string;
}

const endOfChunk = Buffer.from("\r\n");

function headOf(status: number, headers: readonly (readonly [string, string])[]): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Unknown"}\r\n${lines.join("")}\r\n`;
}

function bodyless(status: number): boolean {
  return status === 204 || status === 304 || status < 200;
}
