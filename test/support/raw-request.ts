import { eventually } from "./eventually.ts";
import { RawConnection } from "./raw-connection.ts";
import { RawResponse } from "./raw-response.ts";
import { slowed } from "./slowed.ts";

/** One request on a connection of its own, and what came back, whatever that was. */
export async function rawRequest(url: string, options: RawOptions = {}): Promise<RawResponse> {
  const call = await openRequest(url, options);
  return call.ended;
}

/** Sends a request and returns while the answer is still on its way. */
export async function openRequest(url: string, options: RawOptions = {}): Promise<RawCall> {
  const connection = await RawConnection.open(url);
  const response = new RawResponse();
  response.unhurried = options.sendByteMs !== undefined || options.readBytesPerSecond !== undefined;
  const leave = () => (options.abortBy === "reset" ? connection.reset() : connection.close());
  if (options.readBytesPerSecond !== undefined) connection.readSlowly(options.readBytesPerSecond);
  const ended = conclude(connection, response, options, leave);
  if (options.abort === "after-connect") leave();
  else void sendRequest(connection, url, options, leave);
  return {
    response,
    ended,
    abort: leave,
    reset: () => connection.reset(),
    stopReading: () => {
      response.unhurried = true;
      connection.stopReading();
    },
    resumeReading: () => connection.resumeReading(),
    untilHead: (withinMs) => eventually("the head of the answer", () => response.status !== 0, withinMs),
    untilBody: (bytes, withinMs) => eventually(`${bytes} bytes of body`, () => response.bodyLength >= bytes, withinMs),
  };
}

export interface RawCall {
  /** Filled while it comes. */
  readonly response: RawResponse;
  /** The same, once it has ended in any way. Rejects only when `timeoutMs` have passed. */
  readonly ended: Promise<RawResponse>;
  /** Leaves the way `abortBy` says. */
  readonly abort: () => void;
  readonly reset: () => void;
  readonly stopReading: () => void;
  readonly resumeReading: () => void;
  readonly untilHead: (withinMs?: number) => Promise<void>;
  readonly untilBody: (bytes: number, withinMs?: number) => Promise<void>;
}

export interface RawOptions {
  /** Default: POST with a body, else GET. */
  readonly method?: string;
  /** Sent as it is, unlike the path of the address. */
  readonly path?: string;
  /** Sent as they are; `Host` and `Content-Length` are added unless given. */
  readonly headers?: Readonly<Record<string, string>> | readonly (readonly [string, string])[];
  readonly body?: Uint8Array | string;
  /** In place of all the above. */
  readonly bytes?: Uint8Array | string;
  /** Sends the body with chunk framing instead of a length. */
  readonly chunked?: boolean;
  readonly sendByteMs?: number;
  /** FIN as soon as the request is sent. */
  readonly halfClose?: boolean;
  readonly abort?: "after-connect" | "after-request" | "after-head" | { readonly afterBodyBytes: number } | { readonly afterMs: number };
  readonly abortBy?: "close" | "reset";
  readonly stopReadingAfterBytes?: number;
  readonly readBytesPerSecond?: number;
  /** Default 10 s. */
  readonly timeoutMs?: number;
}

async function sendRequest(connection: RawConnection, url: string, options: RawOptions, leave: () => void): Promise<void> {
  await connection.send(requestBytes(url, options), options.sendByteMs);
  if (options.halfClose === true) connection.halfClose();
  if (options.abort === "after-request") leave();
}

async function conclude(connection: RawConnection, response: RawResponse, options: RawOptions, leave: () => void): Promise<RawResponse> {
  const { promise: expired, reject } = Promise.withResolvers<never>();
  const timeoutMs = options.timeoutMs ?? 10_000;
  const beganMs = performance.now();
  const expire = (): void => {
    // A bound that only what fails ever reaches: a machine that is slow is given more.
    const leftMs = slowed(timeoutMs) - (performance.now() - beganMs);
    if (leftMs > 1) return void (timer = setTimeout(expire, leftMs));
    const state = `status ${response.status}, ${response.bodyLength} bytes of body`;
    reject(new Error(`the answer did not end within ${timeoutMs} ms: ${state}`));
  };
  let timer = setTimeout(expire, timeoutMs);
  const stopWatching = watch(connection, response, options, leave);
  try {
    return await Promise.race([connection.receive(response, methodOf(options)), expired]);
  } finally {
    clearTimeout(timer);
    stopWatching();
    connection.close();
  }
}

/** Leaves, or stops reading, in the moment the options name. */
function watch(
  connection: RawConnection,
  response: RawResponse,
  { abort, stopReadingAfterBytes }: RawOptions,
  leave: () => void,
): () => void {
  if (typeof abort === "object" && "afterMs" in abort) {
    const timer = setTimeout(leave, abort.afterMs);
    return () => clearTimeout(timer);
  }
  response.onProgress = () => {
    if (abort === "after-head" && response.status !== 0) leave();
    if (typeof abort === "object" && response.bodyLength >= abort.afterBodyBytes) leave();
    // Once: whoever reads on after that has been told to.
    if (!response.unhurried && response.bodyLength >= (stopReadingAfterBytes ?? Number.POSITIVE_INFINITY)) {
      response.unhurried = true;
      connection.stopReading();
    }
  };
  return () => {
    response.onProgress = () => {};
  };
}

function requestBytes(url: string, options: RawOptions): Uint8Array {
  if (options.bytes !== undefined) return Buffer.from(options.bytes);
  const { host, pathname, search } = new URL(url);
  const body = Buffer.from(options.body ?? "");
  const given = Array.isArray(options.headers) ? options.headers : Object.entries(options.headers ?? {});
  const headers = [...(given as readonly (readonly [string, string])[])];
  const lacks = (name: string) => !headers.some(([candidate]) => candidate.toLowerCase() === name);
  if (lacks("host")) headers.unshift(["Host", host]);
  if (options.chunked === true) headers.push(["Transfer-Encoding", "chunked"]);
  else if (options.body !== undefined && lacks("content-length")) {
    headers.push(["Content-Length", String(body.length)]);
  }
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const requestLine = `${methodOf(options)} ${options.path ?? pathname + search} HTTP/1.1\r\n`;
  const head = Buffer.from(`${requestLine}${lines}\r\n`, "latin1");
  return Buffer.concat([head, options.chunked === true ? chunkedBody(body) : body]);
}

function chunkedBody(body: Buffer): Buffer {
  const middle = body.length >> 1;
  const chunks = [body.subarray(0, middle), body.subarray(middle)].filter(({ length }) => length > 0);
  const framed = chunks.map((chunk) => [`${chunk.length.toString(16)}\r\n`, chunk, "\r\n"]);
  return Buffer.concat([...framed.flat(), "0\r\n\r\n"].map((piece) => Buffer.from(piece)));
}

function methodOf(options: RawOptions): string {
  return options.method ?? (options.body === undefined ? "GET" : "POST");
}
