import type { Inbox } from "./inbox.ts";

/** An answer as it came over the wire, whole or not. */
export class RawResponse {
  /** 0 until a status line has come. */
  status = 0;
  reason = "";
  headers: readonly (readonly [name: string, value: string])[] = [];
  /** The status of every interim answer before this one. */
  readonly interims: number[] = [];
  /** The terminating chunk, or all of the content-length, has been seen. */
  endedCleanly = false;
  /** The peer reset the connection. */
  wasReset = false;
  /** We left first. */
  aborted = false;
  /** We took our time ourselves, to send or to read: how long it took tells nothing of the peer. */
  unhurried = false;
  /** Milliseconds from the beginning of the request; null for what never came. */
  readonly timing: { headMs: number | null; bodyMs: number | null; endMs: number | null } = {
    headMs: null,
    bodyMs: null,
    endMs: null,
  };
  bodyLength = 0;
  /** Called when the head or more of the body has come. */
  onProgress: () => void = () => {};
  readonly #body: Uint8Array[] = [];
  readonly #raw: Uint8Array[] = [];
  readonly #startedMs = performance.now();

  /** Without chunk framing. */
  get body(): Buffer {
    return Buffer.concat(this.#body);
  }

  /** Every byte, from the status line on. */
  get raw(): Buffer {
    return Buffer.concat(this.#raw);
  }

  get text(): string {
    return new TextDecoder().decode(this.body);
  }

  json(): unknown {
    return JSON.parse(this.text) as unknown;
  }

  header(name: string): string | null {
    return this.headers.find(([candidate]) => candidate.toLowerCase() === name)?.[1] ?? null;
  }

  /** Reads on until the answer ends, cleanly or not. */
  async read(inbox: Inbox, method: string): Promise<void> {
    await this.#readHead(inbox);
    if (this.status !== 0) {
      this.timing.headMs = this.#elapsedMs();
      this.onProgress();
      this.endedCleanly = await this.#readBody(inbox, method);
    }
    this.timing.endMs = this.#elapsedMs();
  }

  async #readHead(inbox: Inbox): Promise<void> {
    for (;;) {
      const head = await inbox.readThrough("\r\n\r\n");
      if (head === null) return this.#keepRest(inbox);
      this.#raw.push(head);
      const [statusLine = "", ...lines] = head.toString("latin1").trimEnd().split("\r\n");
      const [, code = "0", ...reason] = statusLine.split(" ");
      const status = Number(code);
      if (status >= 200 || status === 101) {
        this.headers = lines.map(headerOf);
        this.reason = reason.join(" ");
        this.status = status;
        return;
      }
      this.interims.push(status);
    }
  }

  /** True when the end of the body was seen. */
  async #readBody(inbox: Inbox, method: string): Promise<boolean> {
    if (method === "HEAD" || this.status === 204 || this.status === 304) return true;
    if (/chunked/i.test(this.header("transfer-encoding") ?? "")) return this.#readChunks(inbox);
    const length = this.header("content-length");
    return this.#readLength(inbox, length === null ? Number.POSITIVE_INFINITY : Number(length));
  }

  async #readChunks(inbox: Inbox): Promise<boolean> {
    for (;;) {
      const line = await this.#keep(inbox.readThrough("\r\n"));
      const size = parseInt(line?.toString("latin1") ?? "", 16);
      if (Number.isNaN(size)) return false;
      if (size === 0) return (await this.#keep(inbox.readThrough("\r\n"))) !== null;
      if (!(await this.#readLength(inbox, size))) return false;
      if ((await this.#keep(inbox.readExactly(2))) === null) return false;
    }
  }

  async #readLength(inbox: Inbox, length: number): Promise<boolean> {
    let missing = length;
    while (missing > 0) {
      const bytes = await this.#keep(inbox.readSome(missing));
      if (bytes === null) return false;
      this.timing.bodyMs ??= this.#elapsedMs();
      this.#body.push(bytes);
      this.bodyLength += bytes.length;
      missing -= bytes.length;
      this.onProgress();
    }
    return true;
  }

  async #keepRest(inbox: Inbox): Promise<void> {
    while ((await this.#keep(inbox.readSome(Number.POSITIVE_INFINITY))) !== null);
  }

  async #keep(reading: Promise<Buffer | null>): Promise<Buffer | null> {
    const bytes = await reading;
    if (bytes !== null) this.#raw.push(bytes);
    return bytes;
  }

  #elapsedMs(): number {
    return performance.now() - this.#startedMs;
  }
}

function headerOf(line: string): [string, string] {
  const colon = line.indexOf(":");
  return [line.slice(0, colon), line.slice(colon + 1).trim()];
}
