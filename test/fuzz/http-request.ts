import { isPersistent, RequestParser, type RequestLine } from "../../src/net/server/request-parser.ts";
import type { HeaderLines } from "../../src/net/message/header-lines.ts";
import { headersOf, joined, type Header } from "./headers.ts";
import { hasTabsInFraming, readByReference, type Reference } from "./llhttp.ts";
import { cutAtRandom, type FuzzTarget } from "./target.ts";

/**
 * Requests are read alike however they are cut. Whatever is taken for a whole request is one for llhttp, with the same
 * method, target, headers, body and end: a proxy that reads as llhttp does cannot be made to see other requests than we do.
 */
export const httpRequestTarget: FuzzTarget = {
  name: "http-request",
  seeds: [
    "GET /v1/models HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer x\r\nAccept: */*\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b;c="d\\"e"\r\nhello\r\n00a\r\n0123456789\r\n0\r\nT: 1\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n',
    "PUT /x HTTP/1.0\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\nY:\t z \r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\nY:\t z \r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 3\r\nY:\t z \r\n\r\n",
  ],
  words: [
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Connection: close\r\n",
    "Connection: not-close\r\n",
    "Host: b\r\n",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "\r\n\r\n",
    "\r\n",
    "\n",
    "\r",
    ", chunked",
    "GET /s HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/2.0",
    "HTTP/1.0",
    ' ;a="',
    "0x",
  ],
  check: (input, dice) => {
    const whole = read([Buffer.from(input)]);
    const inPieces = read(cutAtRandom(input, dice));
    if (!Bun.deepEquals(whole, inPieces)) throw new Error(`whole: ${JSON.stringify(whole)}\nin pieces: ${JSON.stringify(inPieces)}`);
    const complete = whole.requests.filter(({ ended }) => ended);
    const reference = readByReference("request", input);
    if (hasTabsInFraming(input)) return "tabs in the framing";
    for (const [index, request] of complete.entries()) {
      const other = reference.messages[index];
      // What it refuses though we take it is no danger: nobody who reads as it does goes on from there.
      if (other === undefined && reference.refused && isBeyondReference(request)) break;
      if (other === undefined || !other.ended)
        throw new Error(`taken for a request, but not by llhttp: ${JSON.stringify({ request, reference })}`);
      const { isHttp11 } = request;
      const comparable: Request = { ...pick(other), headers: joined(other.headers), isHttp11, persistent: isHttp11 && other.keepsAlive };
      if (!Bun.deepEquals(comparable, request)) throw new Error(`read in two ways: ${JSON.stringify({ request, comparable })}`);
      // It closes: nobody looks at what follows.
      if (!request.persistent) break;
    }
    return `${complete.length} requests, ${whole.refusal ?? "all read"}, ${reference.refused ? "refused by llhttp" : "read by llhttp"}`;
  },
};

interface Request {
  readonly method: string;
  readonly target: string;
  readonly isHttp11: boolean;
  readonly persistent: boolean;
  /** Sorted by name. */
  readonly headers: readonly Header[];
  readonly body: string;
  readonly ended: boolean;
}

function read(pieces: readonly Buffer[]): { readonly requests: readonly Request[]; readonly refusal: string | null } {
  const requests: Request[] = [];
  let head: { readonly line: RequestLine; readonly headers: HeaderLines } | null = null;
  let body = "";
  const parser = new RequestParser({
    onHead: (line, headers) => {
      head = { line, headers };
      body = "";
    },
    onBody: (part) => {
      body += Buffer.from(part).toString("latin1");
    },
    onEnd() {},
  });
  const note = (ended: boolean): void => {
    if (head === null) return;
    const { line, headers } = head;
    const { method, target, isHttp11 } = line;
    requests.push({ method, target, isHttp11, persistent: isPersistent(line, headers), headers: headersOf(headers), body, ended });
    head = null;
  };
  let refusal: string | null = null;
  for (const piece of pieces) {
    for (let from = 0; from < piece.length && refusal === null;) {
      const taken = parser.feed(piece, from);
      if (typeof taken === "string") refusal = taken;
      else from = taken;
      if (!parser.isComplete) continue;
      note(true);
      parser.next();
    }
    // The network uses its memory again.
    piece.fill(0x58);
  }
  note(false);
  return { requests, refusal };
}

function pick({ method, target, body, ended }: Reference): Pick<Request, "method" | "target" | "body" | "ended"> {
  return { method, target, body, ended };
}

/** Methods, targets and values that llhttp does not take, and we do. */
function isBeyondReference({ method, headers, target }: Request): boolean {
  return (
    !knownMethods.has(method) || !/^[/*][\x21-\x7e]*$/.test(target) || headers.some(([, value]) => /[^\t\x20-\x7e\x80-\xff]/.test(value))
  );
}

const knownMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"]);
