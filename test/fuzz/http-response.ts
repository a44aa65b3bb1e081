import { ResponseParser } from "../../src/net/client/response-parser.ts";
import type { HeaderLines } from "../../src/net/message/header-lines.ts";
import { headersOf, joined, type Header } from "./headers.ts";
import { hasTabsInFraming, readByReference } from "./llhttp.ts";
import { cutAtRandom, type FuzzTarget } from "./target.ts";

/**
 * A response is read alike however it is cut; and where llhttp does not refuse it, with the same status, headers, body
 * and end as llhttp reads it. Whether the connection is used again is decided no more boldly than by llhttp.
 */
export const httpResponseTarget: FuzzTarget = {
  name: "http-response",
  seeds: [
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n5;a="b"\r\ndata:\r\n00a\r\n0123456789\r\n0\r\nT: 1\r\n\r\n',
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
    "HTTP/1.0 200 OK\r\nServer: a\r\nX: 1\r\nX: 2\r\n\r\nuntil the end",
    "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n",
    "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc",
  ],
  words: [
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: not-close\r\n",
    "Connection: keep-alive\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 102 Processing\r\n\r\n",
    "HTTP/1.0",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "\r\n\r\n",
    "\r\n",
    "\n",
    "\r",
    ", chunked",
    ' ;a="',
  ],
  check: (input, dice) => {
    const whole = read([Buffer.from(input)]);
    const inPieces = read(cutAtRandom(input, dice));
    if (!Bun.deepEquals(whole, inPieces)) throw new Error(`whole: ${JSON.stringify(whole)}\nin pieces: ${JSON.stringify(inPieces)}`);
    const reference = readByReference("response", input, true);
    const other = reference.messages.find(({ status }) => status >= 200);
    const outcome = `${whole.status} ${whole.problem ?? "read"}, ${reference.refused ? "refused by llhttp" : "read by llhttp"}`;
    // What follows a whole response may be refused: we do not look at it.
    if (whole.problem !== null || other === undefined || (reference.refused && !other.ended) || hasTabsInFraming(input)) return outcome;
    const comparable: Response = {
      status: other.status,
      headers: joined(other.headers),
      body: other.body,
      problem: null,
      persistent: whole.persistent,
    };
    if (!Bun.deepEquals(comparable, whole)) throw new Error(`read in two ways: ${JSON.stringify({ whole, comparable })}`);
    if (whole.persistent && !other.keepsAlive) throw new Error(`kept, but not by llhttp: ${JSON.stringify(whole)}`);
    return outcome;
  },
};

interface Response {
  readonly status: number;
  readonly headers: readonly Header[];
  /** Latin-1, which compares byte for byte. */
  readonly body: string;
  readonly persistent: boolean;
  readonly problem: string | null;
}

/** The first response of a connection that closes behind these bytes. */
function read(pieces: readonly Buffer[]): Response {
  const heads: { readonly status: number; readonly headers: HeaderLines; readonly persistent: boolean }[] = [];
  let body = "";
  let ended = false;
  const parser = new ResponseParser({
    onHead: (status, headers, persistent) => {
      heads.push({ status, headers, persistent });
    },
    onBody: (part) => {
      body += Buffer.from(part).toString("latin1");
    },
    onEnd: () => {
      ended = true;
    },
  });
  let problem: string | null = null;
  for (const piece of pieces) {
    problem ??= parser.feed(piece);
    // The network uses its memory again.
    piece.fill(0x58);
  }
  problem ??= parser.close();
  if (problem === null && !ended) throw new Error("an end that nobody was told of");
  if (heads.length > 1) throw new Error("two heads");
  const [head] = heads;
  return {
    status: head?.status ?? 0,
    headers: head === undefined ? [] : headersOf(head.headers),
    body,
    persistent: head?.persistent === true,
    problem,
  };
}
