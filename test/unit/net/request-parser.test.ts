import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { expectsContinue, isPersistent, RequestParser, statusFor, type RequestLine } from "../../../src/net/server/request-parser.ts";
import type { HeaderLines } from "../../../src/net/message/header-lines.ts";
import { allHeaders } from "../../support/header-lines.ts";
import { bytewise, cutAt, cutAtFractions, cutNearEnd, fractions } from "../../support/cuts.ts";
import {
  chunkedBody,
  chunkedOf,
  fieldOf,
  fieldValue,
  latin1,
  plainField,
  shortChunked,
  takenBytes,
  tokenCharacters,
  visible,
  wounded,
  writtenField,
  type ChunkedFraming,
  type MessageField,
} from "../../support/http-messages.ts";
import { numRuns } from "../../support/properties.ts";

// Properties over many requests, sweeps over every byte; no clock is judged here.
setDefaultTimeout(60_000);

/** A request as it was told. Bodies are Latin-1, which compares byte for byte. */
interface Request {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: number | null;
  readonly isHttp11: boolean;
  readonly persistent: boolean;
  readonly expectsContinue: boolean;
  readonly body: string;
  readonly ended: boolean;
}

/** All that one connection told, and why the rest of it was refused. */
interface Parsed {
  readonly requests: readonly Request[];
  readonly refusal: string | null;
  /** A part of another head came. */
  readonly inHead: boolean;
}

/**
 * Reads a connection until it is refused. The network uses its memory again as soon as a chunk is taken, so every chunk
 * is overwritten behind the parser's back; and whatever is told out of order is a bug.
 */
function parse(chunks: Iterable<Uint8Array>): Parsed {
  const requests: Request[] = [];
  let head: { readonly line: RequestLine; readonly headers: HeaderLines; readonly bodyBytes: number | null } | null = null;
  let parts: Uint8Array[] = [];
  let ended = false;
  const parser = new RequestParser({
    onHead(line, headers, bodyBytes) {
      if (head !== null) throw new Error("a head out of order");
      head = { line, headers, bodyBytes };
    },
    onBody(bytes) {
      if (head === null || ended) throw new Error("a part of a body out of order");
      if (bytes.length === 0) throw new Error("an empty part");
      parts.push(Buffer.from(bytes));
    },
    onEnd() {
      if (head === null || ended) throw new Error("an end out of order");
      ended = true;
    },
  });
  const note = (): void => {
    if (head === null) return;
    const { line, headers, bodyBytes } = head;
    const body = Buffer.concat(parts).toString("latin1");
    requests.push({
      method: line.method,
      target: line.target,
      headers: allHeaders(headers),
      bodyBytes,
      isHttp11: line.isHttp11,
      persistent: isPersistent(line, headers),
      expectsContinue: expectsContinue(line, headers, bodyBytes),
      body,
      ended,
    });
    head = null;
    parts = [];
    ended = false;
  };
  let refusal: string | null = null;
  for (const chunk of chunks) {
    const own = Buffer.from(chunk);
    for (let from = 0; from < own.length && refusal === null;) {
      const taken = parser.feed(own, from);
      if (parser.isComplete !== ended) throw new Error("an end that nobody was told of");
      if (typeof taken === "string") refusal = taken;
      else if (taken <= from || taken > own.length) throw new Error(`taken from ${from} to ${taken} of ${own.length}`);
      else from = taken;
      if (!parser.isComplete) continue;
      note();
      parser.next();
    }
    own.fill(0x58);
    if (refusal !== null) break;
  }
  const { isInHead } = parser;
  note();
  return { requests, refusal, inHead: refusal === null && isInHead };
}

const places = fractions(6);

/** A request that is as it should be, and what is to be made of it. */
interface Sample {
  readonly bytes: Uint8Array;
  readonly parsed: Request;
}

type Framing = { readonly kind: "none" } | { readonly kind: "length"; readonly data: Uint8Array; readonly zeros: number } | ChunkedFraming;

interface Draft {
  readonly method: string;
  readonly target: string;
  readonly minor: number;
  readonly fields: readonly MessageField[];
  readonly framing: Framing;
  readonly connection: string | null;
  readonly expect: string | null;
}

const framingNames = ["host", "connection", "content-length", "transfer-encoding", "expect"];
const fieldName = fc.oneof(
  fc.constantFrom("Authorization", "authorization", "Cookie", "X-Api-Key", "Content-Type", "X-A", "x-a", "__proto__", "constructor"),
  fc
    .string({ unit: fc.constantFrom(...tokenCharacters), minLength: 1, maxLength: 8 })
    .filter((name) => !framingNames.includes(name.toLowerCase())),
);
const field = fieldOf(fieldName);
const fields = fc.array(field, { maxLength: 4 });
const target = fc.oneof(
  fc.constantFrom("/", "*", "/v1/models", "/v1/chat/completions?x=y", "http://a.example/v1/models", "evil:443", "/%2e%2e//\\;", "/\xe9"),
  fc.array(visible, { minLength: 1, maxLength: 12 }).map((codes) => String.fromCharCode(...codes)),
);
const extension = fc.constantFrom("", "", ";a", ";a=1", ';a="b;c"', ';a;b="\\"\\\\ "', `;${"x".repeat(40)}`);
const framing: fc.Arbitrary<Framing> = fc.oneof(
  fc.record({ kind: fc.constant("none" as const) }),
  fc.record({ kind: fc.constant("length" as const), data: fc.uint8Array({ maxLength: 60 }), zeros: fc.nat(2) }),
  chunkedOf(extension, fields),
);
const draft: fc.Arbitrary<Draft> = fc.record({
  method: fc.constantFrom("GET", "POST", "HEAD", "OPTIONS", "CONNECT", "TRACE", "M-SEARCH", "get", "X"),
  target,
  minor: fc.constantFrom(1, 1, 1, 0),
  fields,
  framing,
  connection: fc.constantFrom(
    null,
    null,
    "close",
    "Close",
    "keep-alive",
    "Upgrade, HTTP2-Settings",
    "upgrade,close",
    "keep-alive, closed",
    "not-close",
    "close-not , Upgrade",
    "a,\tclose ,b",
  ),
  expect: fc.constantFrom(null, null, "100-continue", "100-Continue", "200-ok"),
});
const sample = draft.map(assemble);

function assemble(given: Draft): Sample {
  const { method, minor, connection, expect: expectation } = given;
  // The old version knows no chunks: it is refused with them, and that is another test.
  const framing: Framing = minor === 0 && given.framing.kind === "chunked" ? { kind: "none" } : given.framing;
  const all = [plainField("Host", "a.example"), ...given.fields];
  if (connection !== null) all.unshift(plainField("Connection", connection));
  if (expectation !== null) all.push(plainField("Expect", expectation));
  if (framing.kind === "length") all.push(plainField("Content-Length", "0".repeat(framing.zeros) + String(framing.data.length)));
  if (framing.kind === "chunked") all.push(plainField("TRANSFER-encoding", "Chunked"));
  const head = latin1(`${method} ${given.target} HTTP/1.${minor}\r\n${all.map(writtenField).join("")}\r\n`);
  const [raw, body] = bodyOf(framing);
  const isHttp11 = minor === 1;
  const bodyBytes = framing.kind === "chunked" ? null : framing.kind === "length" ? framing.data.length : 0;
  return {
    bytes: Buffer.concat([head, raw]),
    parsed: {
      method,
      target: given.target,
      headers: headersOf(all),
      bodyBytes,
      isHttp11,
      persistent: isHttp11 && !(connection ?? "").split(",").some((option) => option.trim().toLowerCase() === "close"),
      expectsContinue: isHttp11 && bodyBytes !== 0 && expectation?.toLowerCase() === "100-continue",
      body: Buffer.from(body).toString("latin1"),
      ended: true,
    },
  };
}

/** By lower-case name, repeated ones joined. */
function headersOf(all: readonly MessageField[]): Record<string, string> {
  const headers = new Map<string, string>();
  for (const { name, value } of all) {
    const before = headers.get(name.toLowerCase());
    headers.set(name.toLowerCase(), before === undefined ? value : `${before}, ${value}`);
  }
  return Object.fromEntries(headers);
}

function bodyOf(framing: Framing): readonly [raw: Uint8Array, body: Uint8Array] {
  switch (framing.kind) {
    case "none":
      return [new Uint8Array(), new Uint8Array()];
    case "length":
      return [framing.data, framing.data];
    case "chunked":
      return chunkedBody(framing);
  }
}

function conversation(samples: readonly Sample[]): { readonly bytes: Uint8Array; readonly parsed: Parsed } {
  return {
    bytes: Buffer.concat(samples.map(({ bytes }) => bytes)),
    parsed: { requests: samples.map(({ parsed }) => parsed), refusal: null, inHead: false },
  };
}

/** One short request of every framing, for sweeps that grow with the square. */
const shortFramings: readonly Framing[] = [{ kind: "none" }, { kind: "length", data: latin1("four"), zeros: 0 }, shortChunked];
const shortSamples = shortFramings.map((each) =>
  assemble({ method: "PUT", target: "/", minor: 1, fields: [], framing: each, connection: null, expect: null }),
);

describe("requests that are as they should be", () => {
  test("are read alike, one behind the other, wherever the network cuts them in two and when they come byte by byte", () => {
    fc.assert(
      fc.property(fc.array(sample, { minLength: 1, maxLength: 3 }).map(conversation), ({ bytes, parsed }) => {
        expect(parse([bytes])).toEqual(parsed);
        expect(parse(bytewise(bytes))).toEqual(parsed);
        const expected = outline(parsed);
        for (let at = 1; at < bytes.length; at++) expectOutline(cutAt(bytes, at), expected);
      }),
      { numRuns: numRuns(25) },
    );
  });

  test("are read alike wherever they are cut in three", () => {
    for (const { bytes, parsed } of shortSamples.map((one) => conversation([one, shortSamples[0]!]))) {
      const expected = outline(parsed);
      for (let first = 0; first <= bytes.length; first++) {
        for (let second = first; second <= bytes.length; second++) {
          expectOutline(cutAt(bytes, first, second), expected);
        }
      }
    }
  });

  test("are read alike in pieces of any size", () => {
    fc.assert(
      fc.property(fc.array(sample, { minLength: 1, maxLength: 4 }).map(conversation), places, ({ bytes, parsed }, at) =>
        expect(parse(cutAtFractions(bytes, at))).toEqual(parsed),
      ),
      { numRuns: 600 },
    );
  });

  test("end exactly when their last byte has come, and give their body as it comes", () => {
    for (const { bytes, parsed } of shortSamples) {
      const before = parse([bytes.subarray(0, -1)]);
      expect(before).toMatchObject({ refusal: null });
      expect(before.requests.every(({ ended }) => !ended)).toBe(true);
      expect(parse([bytes]).requests).toEqual([parsed]);
    }
    const { requests } = parse([latin1("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")]);
    expect(requests).toMatchObject([{ body: "hel", ended: false }]);
  });

  test("are in their head from its first byte to its last but one, and at no other", () => {
    const [first, second] = [shortSamples[1]!.bytes, shortSamples[0]!.bytes];
    const bytes = Buffer.concat([first, second]);
    const headBytes = first.length - 4;
    for (let at = 0; at <= bytes.length; at++) {
      const inHead = (at > 0 && at < headBytes) || (at > first.length && at < bytes.length);
      expect({ at, inHead: parse([bytes.subarray(0, at)]).inHead }).toEqual({ at, inHead });
    }
  });
});

describe("what a connection remembers of its heads changes nothing", () => {
  /** The next request of the same client: mostly the same lines, a few of them other, gone, new or elsewhere. */
  const change = fc.oneof(
    fc.constant((one: Draft) => one),
    field.map((added) => (one: Draft) => ({ ...one, fields: [...one.fields, added] })),
    field.map((added) => (one: Draft) => ({ ...one, fields: [added, ...one.fields] })),
    fc.constant((one: Draft) => ({ ...one, fields: one.fields.slice(1) })),
    fc.constant((one: Draft) => ({ ...one, fields: one.fields.toReversed() })),
    // Not without end: more than a hundred are refused, which is another test.
    fc.constant((one: Draft) => ({ ...one, fields: [...one.fields, ...one.fields].slice(0, 50) })),
    fieldValue.map((value) => (one: Draft) => ({ ...one, fields: one.fields.map((each) => ({ ...each, value })) })),
    fieldValue.map((value) => (one: Draft) => ({ ...one, fields: one.fields.map((each, at) => (at === 0 ? { ...each, value } : each)) })),
    target.map((next) => (one: Draft) => ({ ...one, target: next })),
    framing.map((next) => (one: Draft) => ({ ...one, framing: next })),
  );

  test("whatever is the same in the next request and whatever is not, it is read as if it were the first", () => {
    fc.assert(
      fc.property(draft, fc.array(fc.array(change, { minLength: 1, maxLength: 3 }), { minLength: 2, maxLength: 6 }), (first, steps) => {
        const drafts: Draft[] = [first];
        for (const step of steps) drafts.push(step.reduce((one, each) => each(one), drafts.at(-1)!));
        const { bytes, parsed } = conversation(drafts.map(assemble));
        expect(parse([bytes])).toEqual(parsed);
        expect(parse(bytewise(bytes))).toEqual(parsed);
      }),
      { numRuns: numRuns(100) },
    );
  });

  test("a line that is refused in the first request is refused in the fourth", () => {
    const good = "GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n";
    for (const bad of ["A : 1", " A: 1", "A: 1\nB: 2", "A: 1\rB: 2", "A: \0", "Content-Length: 1\r\nContent-Length: 2"]) {
      const parsed = parse([latin1(good.repeat(3) + good.replace("B: 2", bad))]);
      expect([bad, parsed.requests.length, typeof parsed.refusal]).toEqual([bad, 3, "string"]);
    }
  });

  test("more headers than are allowed are too many, though most of them are known", () => {
    const head = (count: number): string => `GET / HTTP/1.1\r\nHost: x\r\n${"a: b\r\n".repeat(count - 1)}\r\n`;
    expect(parse([latin1(head(100).repeat(3))])).toMatchObject({ refusal: null });
    const parsed = parse([latin1(head(100).repeat(3) + head(101))]);
    expect([parsed.requests.length, statusFor(parsed.refusal!)]).toEqual([3, 431]);
  });

  test("no credential of one request is another's", () => {
    const head = (line: string): string => `GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 2\r\n${line}\r\n`;
    const lines = [
      "Authorization: Bearer one\r\n",
      "Authorization: Bearer one\r\n",
      "Authorization: Bearer two\r\n",
      "",
      "Authorization:\r\n",
    ];
    const { requests } = parse([latin1(lines.map(head).join(""))]);
    expect(requests.map(({ headers }) => headers["authorization"])).toEqual(["Bearer one", "Bearer one", "Bearer two", undefined, ""]);
  });
});

describe("what could be read in two ways is refused", () => {
  const post = "POST / HTTP/1.1\r\nHost: x\r\n";
  const body = "hello";
  const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
  const header = (line: string): string => `${post}${line}\r\nContent-Length: 5\r\n\r\n${body}`;
  const length = (value: string): string => `${post}Content-Length:${value}\r\n\r\n${body}`;
  const encoding = (value: string): string => `${post}Transfer-Encoding:${value}\r\n\r\n5\r\nhello\r\n0\r\n\r\n`;
  const chunked = (rest: string): string => `${post}Transfer-Encoding: chunked\r\n\r\n${rest}`;
  const line = (first: string): string => `${first}\r\nHost: x\r\nContent-Length: 5\r\n\r\n${body}`;

  const malformed: Readonly<Record<string, string>> = {
    // S09
    "a length and chunks": `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    "chunks and a length": `${post}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${smuggled}`,
    "chunks and a length of nothing": `${post}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "chunks and an empty length": `${post}Content-Length:\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "two lengths": `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n${body}`,
    "one length twice": `${post}Content-Length: 5\r\nContent-Length: 5\r\n\r\n${body}`,
    "two lengths apart": `${post}Content-Length: 5\r\nX: y\r\ncontent-length: 05\r\n\r\n${body}`,
    "two lengths in one line": length(" 5, 6"),
    "one length twice in one line": length(" 5, 5"),
    "a space before the colon of the encoding": `${post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
    "a space before the colon of the length": `${post}Content-Length : 5\r\n\r\n${body}`,
    "a tab before the colon": header("X\t: a"),
    "chunks that are not last": encoding(" chunked, identity"),
    "chunks behind another encoding": encoding(" gzip, chunked"),
    "an encoding that does nothing": encoding(" identity"),
    "chunks twice": encoding(" chunked, chunked"),
    "chunks twice in two lines": `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "an encoding hidden behind another": `${post}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "an encoding nobody knows": encoding(" xchunked"),
    "chunks with a parameter": encoding(" chunked;q=1"),
    "chunks in quotes": encoding(' "chunked"'),
    "chunks behind a vertical tab": encoding(" \x0bchunked"),
    "chunks behind a no-break space": encoding(" \xa0chunked"),
    "chunks behind a comma": encoding(" ,chunked"),
    "an empty encoding": encoding(""),
    "chunks in the old version": "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": header("X: a\r\n b"),
    "a header folded with a tab": header("X: a\r\n\tTransfer-Encoding: chunked"),
    "a folded encoding": encoding("\r\n chunked"),
    "a fold behind the request line": `POST / HTTP/1.1\r\n X: a\r\nHost: x\r\nContent-Length: 5\r\n\r\n${body}`,
    "bare line feeds": length(" 5").replaceAll("\r\n", "\n"),
    "a bare line feed behind the request line": `POST / HTTP/1.1\nHost: x\r\nContent-Length: 5\r\n\r\n${body}`,
    "a bare line feed in a value": header("X: a\nTransfer-Encoding: chunked"),
    "a bare line feed before the blank line": `${post}Content-Length: 5\n\r\n${body}`,
    "a blank line that is a bare line feed": `${post}Content-Length: 5\r\n\n${body}`,
    "a bare carriage return in a value": header("X: a\rTransfer-Encoding: chunked"),
    "a bare carriage return in the target": line("POST /\r HTTP/1.1"),
    "two carriage returns": `${post}Content-Length: 5\r\r\n\r\n${body}`,
    "a NUL in a name": header("X\0: a"),
    "a NUL in a value": header("X: a\0b"),
    "a NUL in the target": line("POST /\0 HTTP/1.1"),
    "an empty length": length(""),
    "a length with a sign": length(" +5"),
    "a negative length": length(" -5"),
    "a hexadecimal length": length(" 0x5"),
    "a length with a fraction": length(" 5.0"),
    "a length with an exponent": length(" 5e0"),
    "a length with an underscore": length(" 0_5"),
    "a length in quotes": length(' "5"'),
    "a length behind a vertical tab": length(" \x0b5"),
    "a length before a form feed": length(" 5\x0c"),
    "a length that a double cannot hold": length(" 9007199254740993"),
    "a length that wraps in 64 bits": length(" 18446744073709551621"),
    "a header without a colon": header("X"),
    "a header without a name": header(": x"),
    "a space inside a name": header("X Y: a"),
    "a name that is no token": header("X(Y): a"),
    "a name of other letters": header("X\xe9: a"),
    "a chunk without a size": chunked("\r\nhello\r\n0\r\n\r\n"),
    "a chunk with nothing but an extension": chunked(";a=b\r\nhello\r\n0\r\n\r\n"),
    "a chunk whose size is no number": chunked("zz\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a sign": chunked("+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk of negative size": chunked("-5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a prefix": chunked("0x5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a space before its size": chunked(" 5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with two sizes": chunked("5 5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with an underscore": chunked("0_5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a bare carriage return in its extension": chunked("5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "a chunk whose size overflows 32 bits into something small": chunked("1000000000005\r\nhello\r\n0\r\n\r\n"),
    "a chunk larger than numbers": chunked("fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a space behind its size": chunked("5 \r\nhello\r\n0\r\n\r\n"),
    "a chunk with a tab behind its size": chunked("5\t\r\nhello\r\n0\r\n\r\n"),
    "a last chunk with a space behind its size": chunked("5\r\nhello\r\n0 \r\n\r\n"),
    "a chunk with a space before its extension": chunked("5 ;a\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a space in its extension": chunked("5; a=b\r\nhello\r\n0\r\n\r\n"),
    "a NUL in an extension": chunked("5;a=\0\r\nhello\r\n0\r\n\r\n"),
    "a NUL in the quotes of an extension": chunked('5;a="\0"\r\nhello\r\n0\r\n\r\n'),
    "quotes in an extension that are not closed": chunked('5;a="b\r\nhello\r\n0\r\n\r\n'),
    "quotes in an extension that are closed by an escaped quote": chunked('5;a="b\\"\r\nhello\r\n0\r\n\r\n'),
    "quotes in the name of an extension": chunked('5;a"b"\r\nhello\r\n0\r\n\r\n'),
    "more behind the quotes of an extension": chunked('5;a="b"c\r\nhello\r\n0\r\n\r\n'),
    "an extension without a name": chunked("5;\r\nhello\r\n0\r\n\r\n"),
    "an extension without a value": chunked("5;a=\r\nhello\r\n0\r\n\r\n"),
    "a trailer without a colon": chunked("5\r\nhello\r\n0\r\nGET / HTTP/1.1\r\n\r\n"),
    "a trailer without a name": chunked("5\r\nhello\r\n0\r\n: a\r\n\r\n"),
    "a folded trailer": chunked("5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
    "a space before the colon of a trailer": chunked("5\r\nhello\r\n0\r\nX : a\r\n\r\n"),
    "a length behind the body": chunked("5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"),
    "an encoding behind the body": chunked("5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a close behind the body": chunked("5\r\nhello\r\n0\r\nConnection: close\r\n\r\n"),
    "a NUL in a trailer": chunked("5\r\nhello\r\n0\r\nX: \0\r\n\r\n"),
    "chunks with bare line feeds": chunked("5\nhello\n0\n\n"),
    "an extension that ends in a bare line feed": chunked(`5;a\nhello\r\n0\r\n\r\n`),
    "a chunk without an end": chunked("5\r\nhello0\r\n\r\n"),
    "a chunk that ends in a bare line feed": chunked("5\r\nhello\n0\r\n\r\n"),
    "a chunk that ends in a bare carriage return": chunked("5\r\nhello\r0\r\n\r\n"),
    "a chunk that is longer than it says": chunked("5\r\nhello, world\r\n0\r\n\r\n"),
    "a chunk that is shorter than it says": chunked("8\r\nhello\r\n0\r\n\r\n"),
    "a blank line between chunks": chunked("5\r\nhello\r\n\r\n0\r\n\r\n"),
    "a trailer that ends in a bare line feed": chunked("5\r\nhello\r\n0\r\nX: a\n\r\n"),
    "an end that is a bare line feed": chunked("5\r\nhello\r\n0\r\n\n"),
    // S11
    "version 0.9": "GET /\r\n\r\n",
    "version 0.9 in words": line("GET / HTTP/0.9"),
    "version 1.2": line("GET / HTTP/1.2"),
    "version 1.10": line("GET / HTTP/1.10"),
    "a version in lower case": line("GET / http/1.1"),
    "no Host": "GET / HTTP/1.1\r\nX: y\r\n\r\n",
    "two Hosts": "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
    "two Hosts in one line": "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
    "a Host with a blank": "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "a Host with a slash": "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a Host with a backslash": "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n",
    "a Host with a user": "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
    "a Host with a query": "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n",
    "a Host whose port is no number": "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
    "a Host with two ports": "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n",
    "a Host in brackets that are not closed": "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "a Host of the old version with a slash": "GET / HTTP/1.0\r\nHost: a/b\r\n\r\n",
    "no header at all": "GET / HTTP/1.1\r\n\r\n",
    TLS: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a TLS alert": "\x15\x03\x01\0\x02\x02\x16",
    "no target": line("GET HTTP/1.1"),
    "an empty target": line("GET  HTTP/1.1"),
    "two targets": line("GET / /admin HTTP/1.1"),
    "a tab before the target": line("GET\t/ HTTP/1.1"),
    "two spaces before the target": line("GET  / HTTP/1.1"),
    "two spaces before the version": line("GET /  HTTP/1.1"),
    "a space behind the version": line("GET / HTTP/1.1 "),
    "a space before the method": line(" GET / HTTP/1.1"),
    "a method that is no word": line("G@T / HTTP/1.1"),
    "a method that is quoted": line('"GET" / HTTP/1.1'),
    "a response": "HTTP/1.1 200 OK\r\nHost: x\r\n\r\n",
    "no HTTP at all": "\0\0\x06\x04\0\0\0\0\0",
  };

  test.each(Object.entries(malformed))("%s: with a reason, and nothing of it ends, however it is cut", (_, text) => {
    const bytes = latin1(text);
    const whole = parse([bytes]);
    expect(whole.refusal).toBeString();
    expect(whole.refusal).not.toBe("");
    expect(statusFor(whole.refusal!)).toBe(400);
    expect(whole.requests.filter(({ ended }) => ended)).toEqual([]);
    const expected = outline(whole);
    for (let at = 1; at < bytes.length; at++) expectOutline(cutAt(bytes, at), expected);
    expect(parse(bytewise(bytes))).toEqual(whole);
  });

  test("a Host may be empty, a name of any kind or an address, with a port and without", () => {
    for (const host of [
      "",
      "a.example",
      "a.example:8080",
      "my_gateway",
      "a:",
      "127.0.0.1:1",
      "[::1]",
      "[fe80::1%25eth0]:443",
      "xn--bcher-kva.example.",
    ])
      expect(parse([latin1(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)])).toMatchObject({
        refusal: null,
        requests: [{ headers: { host } }],
      });
  });

  test("a Host that is none is refused behind one that is", () => {
    const get = (host: string): string => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
    const parsed = parse([latin1(get("a") + get("a") + get("a") + get("a/b"))]);
    expect([parsed.requests.length, typeof parsed.refusal]).toEqual([3, "string"]);
  });

  test.each(["GET / HTTP/2.0", "GET / HTTP/3.0", "GET / HTTP/2", "PRI * HTTP/2.0"])(
    "a later version of HTTP is told by its own status: %s",
    (first) => {
      for (const rest of ["\r\n\r\nSM\r\n\r\n", "\r\nHost: x\r\n\r\n"]) {
        const parsed = parse([latin1(first + rest)]);
        expect([parsed.requests, statusFor(parsed.refusal!)]).toEqual([[], 505]);
        expect(parse(bytewise(latin1(first + rest)))).toEqual(parsed);
      }
    },
  );

  test("what is no request is refused at its first byte, and TLS is told by name", () => {
    for (const text of ["\x16", "\x15", "\0", " ", "\t", "{", "1", "\x7f", "\xff", "\r", "\n"])
      expect(parse([latin1(text)]).refusal).toBeString();
    expect(parse([latin1("\x16")]).refusal).toContain("TLS");
    for (const text of ["G", "GET / HTTP/1.1\r", "get"]) expect(parse([latin1(text)]).refusal).toBeNull();
  });

  test("a wrong line end is refused when it comes, not when its peer gets tired", () => {
    expect(parse([latin1("GET / HTTP/1.1\n")]).refusal).toBeString();
    expect(parse([latin1(chunked("5\r\nhello, w"))]).refusal).toBeString();
  });
});

describe("what a trailer says", () => {
  test("is no header, and ends with the request", () => {
    const trailers = "Authorization: Bearer x\r\nExpect: 100-continue\r\nHost: evil\r\n";
    const first = `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n2\r\nhi\r\n0\r\n${trailers}\r\n`;
    const { requests, refusal } = parse([latin1(`${first}GET /next HTTP/1.1\r\nHost: x\r\n\r\n`)]);
    expect(refusal).toBeNull();
    expect(requests.map(({ target: at, body }) => [at, body])).toEqual([
      ["/", "hi"],
      ["/next", ""],
    ]);
    for (const { headers } of requests) expect([headers["authorization"], headers["expect"]]).toEqual([undefined, undefined]);
    expect(requests[1]?.headers).toEqual({ host: "x" });
  });
});

describe("everything has a bound", () => {
  const kibibytes = (count: number): number => count * 1024;
  const get = "GET / HTTP/1.1\r\nHost: x\r\n";
  const chunked = `${get}Transfer-Encoding: chunked\r\n\r\n`;
  const headOf = (bytes: number): string => `${get}x: ${"y".repeat(bytes - get.length - 7)}\r\n\r\n`;
  const lineOf = (bytes: number): string => `GET /${"x".repeat(bytes - 27)} HTTP/1.1\r\nHost: x\r\n\r\n`;
  const headers = (count: number): string => `${get}${"a:\r\n".repeat(count - 1)}\r\n`;
  const chunkLineOf = (bytes: number): string => `${chunked}0;${"x".repeat(bytes - 4)}\r\n\r\n`;
  const trailersOf = (bytes: number): string => {
    const last = "x".repeat(996 + ((bytes - 2) % 1_000));
    return `${chunked}0\r\n${`t:${"x".repeat(996)}\r\n`.repeat(Math.floor((bytes - 2) / 1_000) - 1)}t:${last}\r\n\r\n`;
  };
  /** Many chunks of one byte, a trailer, and the blank line. */
  const extensionsOf = (bytes: number): string => {
    const rest = bytes - 7;
    const each = `1;${"x".repeat(99)}\r\nb\r\n`.repeat(Math.floor(rest / 100) - 1);
    return `${chunked}${each}1;${"x".repeat(99 + (rest % 100))}\r\nb\r\n0\r\nt:1\r\n\r\n`;
  };

  const bounds: readonly (readonly [string, (size: number) => string, number, number])[] = [
    ["a head, at 16 KiB", headOf, kibibytes(16), 431],
    ["a request line, at 16 KiB with the rest of the head", lineOf, kibibytes(16), 431],
    ["headers, at 100", headers, 100, 431],
    ["a line of the chunked framing, at 4 KiB", chunkLineOf, kibibytes(4), 400],
    ["trailers, at 16 KiB together", trailersOf, kibibytes(16), 400],
    ["trailers, at 100", (count) => `${chunked}0\r\n${"a:\r\n".repeat(count)}\r\n`, 100, 400],
    ["chunk extensions, at 16 KiB together with the trailers", extensionsOf, kibibytes(16), 400],
    ["the digits of a chunk's size, at 12", (digits) => `${chunked}${"0".repeat(digits)}\r\n\r\n`, 12, 400],
    ["the digits of a length, at 15", (digits) => `${get}content-length: ${"0".repeat(digits)}\r\n\r\n`, 15, 400],
  ];

  test.each(bounds)("%s, however it arrives", (_, make, max, status) => {
    const within = latin1(make(max));
    const beyond = latin1(make(max + 1));
    for (const chunks of cutNearEnd(within)) expect(parse(chunks)).toMatchObject({ refusal: null, requests: [{ ended: true }] });
    for (const chunks of cutNearEnd(beyond)) {
      const { refusal, requests } = parse(chunks);
      expect(requests.filter(({ ended }) => ended)).toEqual([]);
      expect(statusFor(refusal!)).toBe(status);
    }
  });

  test("a second head has the bound of the first, wherever in a chunk it begins", () => {
    const first = latin1("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    for (const chunks of [
      (last: string) => [Buffer.concat([first, latin1(last)])],
      (last: string) => cutAt(Buffer.concat([first, latin1(last)]), first.length + 7, first.length + 9_000),
    ]) {
      expect(parse(chunks(headOf(kibibytes(16))))).toMatchObject({ refusal: null, requests: [{ body: "hello" }, { ended: true }] });
      const beyond = parse(chunks(headOf(kibibytes(16) + 1)));
      expect([beyond.requests.length, statusFor(beyond.refusal!)]).toEqual([1, 431]);
    }
  });

  /** How many bytes a parser takes of something without an end. */
  function takenOf(start: string, more: string, pieceBytes: number): number {
    return takenBytes(start, more, pieceBytes, (chunks) => {
      const { refusal, requests } = parse(chunks);
      expect(refusal).toBeString();
      expect(requests.filter(({ ended }) => ended)).toEqual([]);
    });
  }

  test.each([
    ["a head without an end", `${get}x: `, "y"],
    ["a head of ten thousand headers", get, "a: b\r\n"],
    ["a target without an end", "GET /", "x"],
    ["a method without an end", "", "G"],
    ["ten megabytes of chunk extension", `${chunked}5;`, "x"],
    ["ten megabytes of space behind a size", `${chunked}5`, " "],
    ["ten megabytes of zeros before a size", chunked, "0"],
    ["a trailer without an end", `${chunked}0\r\nx: `, "y"],
    ["trailers without an end", `${chunked}0\r\n`, "x: y\r\n"],
  ])("%s is refused long before it is held", (_, start, more) => {
    const unit = more.length;
    for (const pieceBytes of [unit, unit * 100, unit * 200_000]) expect(takenOf(start, more, pieceBytes)).toBeLessThan(kibibytes(20));
  });

  // With a copy of what came before for every byte, this takes far longer than it may.
  test("a head that is dripped byte by byte up to its bound does not cost its square", () => {
    /** The processor time for as many heads of this size as make 128 KiB, in milliseconds; the least of three. */
    const drip = (size: number): number => {
      const bytes = latin1(headOf(kibibytes(size)));
      const costs = [1, 2, 3].map(() => {
        const before = process.cpuUsage();
        for (let count = 0; count < 128 / size; count++) {
          let ended = false;
          const parser = new RequestParser({ onHead() {}, onBody() {}, onEnd: () => void (ended = true) });
          for (let at = 0; at < bytes.length; at++) if (parser.feed(bytes.subarray(at, at + 1), 0) !== 1) throw new Error("refused");
          expect(ended).toBe(true);
        }
        return process.cpuUsage(before).user / 1000;
      });
      return Math.min(...costs);
    };
    drip(1);
    // The same number of bytes: with its square it would be 16 times as much, and with a copy for each byte it is four times.
    expect(drip(16)).toBeLessThan(3 * drip(1));
  }, 120_000);

  test("ever new names of headers, from one client or many, leave nothing behind that grows", () => {
    const rounds = (count: number, salt: string): void => {
      let ended = 0;
      for (let at = 0; at < count; at++) {
        const parser = new RequestParser({ onHead: (_, headers) => void allHeaders(headers), onBody() {}, onEnd: () => void (ended += 1) });
        parser.feed(latin1(`${get}${salt}-${at}: 1\r\n${"n".repeat(40)}${at}: 2\r\n\r\n`), 0);
      }
      expect(ended).toBe(count);
    };
    rounds(2_000, "a");
    Bun.gc(true);
    const before = process.memoryUsage().heapUsed;
    rounds(20_000, "b");
    Bun.gc(true);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(3 * 1024 * 1024);
  });
});

describe("whatever a client sends", () => {
  const words = fc.constantFrom(
    ...["GET / HTTP/1.1\r\n", "POST ", " HTTP/1.1", "HTTP/1.0", "Host: x\r\n", "\r\n", "\r\n", "\r\n", "\r\n\r\n", "\r", "\n", "\0"],
    ...[":", ": ", " ", "\t", ";", ",", "x", "\xff", "0", "5", "a", "ffffffffffff", "Content-Length: 5\r\n", "Content-Length", "chunked"],
    ...["Transfer-Encoding: chunked\r\n", "Transfer-Encoding", "Connection: close\r\n", "5\r\nhello\r\n", "0\r\n\r\n", "\x16\x03\x01"],
  );
  const start = "POST / HTTP/1.1\r\nHost: x\r\n";
  const soup = fc
    .tuple(fc.constantFrom("", start, `${start}Transfer-Encoding: chunked\r\n\r\n`, `${start}\r\n`), fc.array(words, { maxLength: 30 }))
    .map(([first, all]) => latin1(first + all.join("")));
  const hurt = wounded(
    fc.array(sample, { minLength: 1, maxLength: 3 }).map((all) => conversation(all).bytes),
    words,
  );
  const anything = fc.oneof(fc.uint8Array({ maxLength: 200 }), soup, hurt, hurt);

  test("never makes it throw or tell a story out of order, and is judged alike however it is cut", () => {
    fc.assert(
      fc.property(anything, places, (bytes, at) => {
        const whole = parse([bytes]);
        expect(parse(cutAtFractions(bytes, at))).toEqual(whole);
        expect(parse(bytewise(bytes))).toEqual(whole);
        // All but the last one are complete, and behind one that is not, nothing is read.
        expect(whole.requests.slice(0, -1).every(({ ended }) => ended)).toBe(true);
      }),
      { numRuns: numRuns(1_000) },
    );
  });

  test("never makes it throw, fed on after a refusal", () => {
    fc.assert(
      fc.property(fc.array(anything, { maxLength: 4 }), (all) => {
        const parser = new RequestParser({ onHead() {}, onBody() {}, onEnd() {} });
        for (const bytes of all) {
          const taken = parser.feed(Buffer.from(bytes), 0);
          expect(typeof taken === "string" ? taken.length > 0 : taken <= bytes.length).toBe(true);
        }
      }),
      { numRuns: numRuns(500) },
    );
  });
});

/** Cheaper to compare than an object, for the sweeps. */
function outline(parsed: Parsed): string {
  return JSON.stringify(parsed);
}

function expectOutline(chunks: readonly Uint8Array[], expected: string): void {
  const read = outline(parse(chunks));
  if (read !== expected) throw new Error(`in pieces of ${chunks.map(({ length }) => length).join(", ")} bytes: ${read}, not ${expected}`);
}
