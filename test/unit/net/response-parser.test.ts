import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { ResponseParser } from "../../../src/net/client/response-parser.ts";
import { allHeaders } from "../../support/header-lines.ts";
import { bytewise, cutAt, cutAtFractions, cutNearEnd, fractions } from "../../support/cuts.ts";
import {
  chunkedBody,
  chunkedOf,
  fieldOf,
  latin1,
  plainField,
  shortChunked,
  takenBytes,
  tokenCharacters,
  wounded,
  writtenField,
  type ChunkedFraming,
  type MessageField,
} from "../../support/http-messages.ts";
import { numRuns } from "../../support/properties.ts";

// Properties over many responses, sweeps over every byte; no clock is judged here.
setDefaultTimeout(60_000);

/** What a parser told its sink, and what it said of the bytes. Bodies are Latin-1, which compares byte for byte. */
interface Parsed {
  readonly head: { readonly status: number; readonly persistent: boolean; readonly headers: Readonly<Record<string, string>> } | null;
  readonly body: string;
  readonly ended: boolean;
  /** Why the bytes were refused. */
  readonly refusal: string | null;
  /** What was missing when the connection was closed, or "open" where it never was. */
  readonly missing: string | null;
  readonly hasExcessBytes: boolean;
}

/**
 * Feeds one parser until it refuses. The network uses its memory again as soon as a chunk is taken, so every chunk is
 * overwritten behind the parser's back; and whatever is told out of order is a bug.
 */
function parse(chunks: Iterable<Uint8Array>, { closes = false } = {}): Parsed {
  let head: Parsed["head"] = null;
  let ended = false;
  const parts: Uint8Array[] = [];
  const parser = new ResponseParser({
    onHead(status, headers, persistent) {
      if (head !== null || parts.length > 0 || ended) throw new Error("a head out of order");
      head = { status, persistent, headers: allHeaders(headers) };
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
  let refusal: string | null = null;
  for (const chunk of chunks) {
    const own = Buffer.from(chunk);
    refusal = parser.feed(own);
    own.fill(0x58);
    if (refusal !== null) break;
  }
  const missing = closes && refusal === null ? parser.close() : "open";
  return { head, body: Buffer.concat(parts).toString("latin1"), ended, refusal, missing, hasExcessBytes: parser.hasExcessBytes };
}

const places = fractions(6);

/** A response that is as it should be, and what is to be made of it. */
interface Sample {
  readonly bytes: Uint8Array;
  readonly parsed: Parsed;
  /** From here on a connection that is closed ends the response properly. */
  readonly wholeFrom: number;
}

type Framing =
  | { readonly kind: "length"; readonly data: Uint8Array; readonly twice: boolean }
  | ChunkedFraming
  | { readonly kind: "until close"; readonly data: Uint8Array }
  | { readonly kind: "none"; readonly status: number };

interface Draft {
  readonly status: number;
  readonly minor: number;
  readonly reason: string;
  readonly interims: string;
  readonly fields: readonly MessageField[];
  readonly framing: Framing;
  readonly connection: string | null;
}

const fieldName = fc
  .string({ unit: fc.constantFrom(...tokenCharacters), minLength: 1, maxLength: 8 })
  .filter((name) => !["connection", "content-length", "transfer-encoding"].includes(name.toLowerCase()));
const field = fieldOf(fieldName);
const fields = fc.array(field, { maxLength: 4 });

const reason = fc.constantFrom(" OK", " ", "", " Not So Good", " \x80\xff", " 200 HTTP/1.1");
const interim = fc
  .record({ status: fc.constantFrom(100, 102, 103, 199), reason, fields })
  .map((one) => `HTTP/1.1 ${one.status}${one.reason}\r\n${one.fields.map(writtenField).join("")}\r\n`);
const interims = fc.array(interim, { maxLength: 3 }).map((all) => all.join(""));

const extension = fc.constantFrom("", "", ";a", ";a=1", ' ;a="b;c"', "\t; x", "  ", `;${"x".repeat(40)}`);
const framing: fc.Arbitrary<Framing> = fc.oneof(
  fc.record({ kind: fc.constant("length" as const), data: fc.uint8Array({ maxLength: 60 }), twice: fc.boolean() }),
  chunkedOf(extension, fields),
  fc.record({ kind: fc.constant("until close" as const), data: fc.uint8Array({ maxLength: 60 }) }),
  fc.record({ kind: fc.constant("none" as const), status: fc.constantFrom(204, 304) }),
);

const sample = fc
  .record({
    status: fc.integer({ min: 200, max: 999 }).filter((status) => status !== 204 && status !== 304),
    minor: fc.constantFrom(1, 1, 1, 0),
    reason,
    interims,
    fields,
    framing,
    connection: fc.constantFrom(null, null, "close", "Close", "keep-alive", "Keep-Alive", "upgrade, close", "keep-alive, x"),
  })
  .map(assemble);

function assemble(draft: Draft): Sample {
  const { framing, connection, minor } = draft;
  const status = framing.kind === "none" ? framing.status : draft.status;
  const all = [...draft.fields];
  if (connection !== null) all.unshift(plainField("Connection", connection));
  if (framing.kind === "length") all.push(plainField("Content-Length", String(framing.data.length)));
  if (framing.kind === "length" && framing.twice) all.unshift(plainField("content-length", String(framing.data.length)));
  if (framing.kind === "chunked") all.push(plainField("TRANSFER-encoding", "Chunked"));
  const head = latin1(`${draft.interims}HTTP/1.${minor} ${status}${draft.reason}\r\n${all.map(writtenField).join("")}\r\n`);
  const [raw, body] = bodyOf(framing);
  const bytes = Buffer.concat([head, raw]);
  const framed = framing.kind !== "until close";
  const keeps = minor === 1 ? !/close/i.test(connection ?? "") : /keep-alive/i.test(connection ?? "") && framing.kind !== "chunked";
  return {
    bytes,
    wholeFrom: framed ? bytes.length : head.length,
    parsed: {
      head: { status, persistent: framed && keeps, headers: headersOf(all) },
      body: Buffer.from(body).toString("latin1"),
      ended: framed,
      refusal: null,
      missing: "open",
      hasExcessBytes: false,
    },
  };
}

/** By lower-case name, repeated ones joined; a length said twice is one length. */
function headersOf(all: readonly MessageField[]): Record<string, string> {
  const headers = new Map<string, string>();
  for (const { name, value } of all) {
    const key = name.toLowerCase();
    const before = headers.get(key);
    headers.set(key, before === undefined || key === "content-length" ? value : `${before}, ${value}`);
  }
  return Object.fromEntries(headers);
}

function bodyOf(framing: Framing): readonly [raw: Uint8Array, body: Uint8Array] {
  switch (framing.kind) {
    case "length":
    case "until close":
      return [framing.data, framing.data];
    case "none":
      return [new Uint8Array(), new Uint8Array()];
    case "chunked":
      return chunkedBody(framing);
  }
}

/** One short response of every framing, for sweeps that grow with the square. */
const shortFramings: readonly Framing[] = [
  { kind: "length", data: latin1("four"), twice: false },
  shortChunked,
  { kind: "until close", data: latin1("\r\n\r\n") },
  { kind: "none", status: 204 },
];
const shortSamples = shortFramings.map((framing) =>
  assemble({ status: 200, minor: 1, reason: " OK", interims: "HTTP/1.1 100 \r\n\r\n", fields: [], framing, connection: null }),
);

describe("a response that is as it should be", () => {
  test("is read alike, head, body and end, wherever the network cuts it in two and when it comes byte by byte", () => {
    fc.assert(
      fc.property(sample, ({ bytes, parsed }) => {
        expect(parse([bytes])).toEqual(parsed);
        expect(parse(bytewise(bytes))).toEqual(parsed);
        const expected = outline(parsed);
        for (let at = 1; at < bytes.length; at++) expectOutline(cutAt(bytes, at), expected);
      }),
      { numRuns: numRuns(50) },
    );
  });

  test("is read alike wherever it is cut in three", () => {
    for (const { bytes, parsed } of shortSamples) {
      const expected = outline(parsed);
      for (let first = 0; first <= bytes.length; first++) {
        for (let second = first; second <= bytes.length; second++) {
          expectOutline(cutAt(bytes, first, second), expected);
        }
      }
    }
  });

  test("is read alike in pieces of any size", () => {
    fc.assert(
      fc.property(sample, places, ({ bytes, parsed }, at) => expect(parse(cutAtFractions(bytes, at))).toEqual(parsed)),
      { numRuns: 1_000 },
    );
  });

  test("is missing something exactly as long as it is not complete, at whatever byte the connection dies", () => {
    fc.assert(
      fc.property(sample, ({ bytes, wholeFrom }) => {
        for (let died = 0; died <= bytes.length; died++) {
          for (const chunks of [[bytes.subarray(0, died)], bytewise(bytes.subarray(0, died))]) {
            const { missing, ended, refusal } = parse(chunks, { closes: true });
            const isWhole = died >= wholeFrom;
            if (refusal !== null || (missing === null) !== isWhole || ended !== isWhole)
              throw new Error(`died at byte ${died}, whole from ${wholeFrom}: ${JSON.stringify({ missing, ended, refusal })}`);
          }
        }
      }),
      { numRuns: numRuns(15) },
    );
  });

  test("gives its body in the very feed that brings it, and its end in the one that completes it", () => {
    for (const { bytes, parsed, wholeFrom } of shortSamples) {
      const before = parse([bytes.subarray(0, wholeFrom - 1)]);
      expect(before.ended).toBe(false);
      expect(parsed.body.startsWith(before.body)).toBe(true);
      expect(parse([bytes]).body).toBe(parsed.body);
    }
    expect(parse([latin1("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel")]).body).toBe("hel");
  });

  test("has a large body that is the network's own memory, and a small one that does not hold on to it", () => {
    for (const [length, isView] of [
      [5_000, true],
      [50, false],
    ] as const) {
      const bytes = latin1(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n${"x".repeat(length)}`);
      const parts: Uint8Array[] = [];
      new ResponseParser({ onHead() {}, onBody: (part) => void parts.push(part), onEnd() {} }).feed(bytes);
      expect(parts.map((part) => [part.length, part.buffer === bytes.buffer])).toEqual([[length, isView]]);
    }
  });
});

describe("bytes behind the end", () => {
  test("taint the connection, however they arrive, and are read as nothing", () => {
    const framed = sample.filter(({ parsed }) => parsed.ended);
    fc.assert(
      fc.property(
        framed,
        fc.oneof(sample, fc.constantFrom({ bytes: latin1("\r\n") }, { bytes: latin1("x") })),
        places,
        (first, extra, at) => {
          const bytes = Buffer.concat([first.bytes, extra.bytes]);
          const expected = { ...first.parsed, hasExcessBytes: true };
          for (const chunks of [[bytes], [first.bytes, extra.bytes], cutAtFractions(bytes, at), bytewise(bytes)])
            expect(parse(chunks)).toEqual(expected);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("are none where there are none: a response alone taints nothing, nor does an empty read behind it", () => {
    for (const { bytes, parsed } of shortSamples) expect(parse([bytes, new Uint8Array()])).toEqual(parsed);
  });

  test("of a close-delimited response are its body, up to the close", () => {
    const parsed = parse([latin1("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")], { closes: true });
    expect(parsed).toMatchObject({ body: "HTTP/1.1 200 OK\r\n\r\n", ended: true, missing: null, hasExcessBytes: false });
    expect(parsed.head?.persistent).toBe(false);
  });

  test("taint a 204 that has a body after all", () => {
    expect(parse([latin1("HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nfour")])).toMatchObject({
      body: "",
      ended: true,
      hasExcessBytes: true,
    });
  });
});

describe("a connection is kept for another request", () => {
  const rows: readonly (readonly [persistent: boolean, head: string])[] = [
    [true, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
    [true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    [true, "HTTP/1.1 204 No Content\r\n\r\n"],
    [true, "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n"],
    [false, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"],
    [false, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"],
    // The old version knows no chunks: who sends them anyway is not to be trusted with the next request.
    [false, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    [true, "HTTP/1.1 200 OK\r\nConnection: not-close\r\nContent-Length: 0\r\n\r\n"],
    [false, "HTTP/1.1 200 OK\r\nConnection: x,\tclose , y\r\nContent-Length: 0\r\n\r\n"],
    [false, "HTTP/1.0 200 OK\r\nConnection: no-keep-alive\r\nContent-Length: 0\r\n\r\n"],
    [false, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"],
    [false, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nCONNECTION: CLOSE\r\nContent-Length: 0\r\n\r\n"],
    [false, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n"],
  ];
  test.each(rows)("%p: %j", (persistent, head) => {
    expect(parse([latin1(head)]).head?.persistent).toBe(persistent);
  });
});

describe("a response that could be read in two ways, or in none", () => {
  const ok = "HTTP/1.1 200 OK\r\n";
  const body = "0123456789abcdef0123456789abcdef\r\n0\r\n\r\n";
  const length = (value: string): string => `${ok}Content-Length:${value}\r\n\r\n${body}`;
  const header = (line: string): string => `${ok}${line}\r\nContent-Length: 5\r\n\r\n${body}`;
  const chunked = (rest: string): string => `${ok}Transfer-Encoding: chunked\r\n\r\n${rest}`;

  const malformed: Readonly<Record<string, string>> = {
    "a NUL in a chunk extension": `${ok}Transfer-Encoding: chunked\r\n\r\n5;a=\0\r\nhello\r\n0\r\n\r\n`,
    "quotes in a chunk extension that are not closed": `${ok}Transfer-Encoding: chunked\r\n\r\n5;a="\r\nhello\r\n0\r\n\r\n`,
    "a trailer that is no header": `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n`,
    "a length and a transfer encoding": `${ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    "a transfer encoding and a length": `${ok}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    "two lengths that differ": `${ok}Content-Length: 5\r\nContent-Length: 6\r\n\r\n${body}`,
    "two lengths that differ in spelling": `${ok}Content-Length: 5\r\nCONTENT-LENGTH: 05\r\n\r\n${body}`,
    "two lengths in one line": length(" 5, 5"),
    "an empty length": length(""),
    "a length with a plus": length(" +5"),
    "a length with a minus": length(" -5"),
    "a length of minus nothing": length(" -0"),
    "a length with a space inside": length(" 1 0"),
    "a length behind a vertical tab": length(" \x0b5"),
    "a length behind a no-break space": length(" \xa05"),
    "a length before a form feed": length(" 5\x0c"),
    "a hexadecimal length": length(" 0x5"),
    "a length in hexadecimal digits": length(" a"),
    "a length with a fraction": length(" 5.0"),
    "a length with an exponent": length(" 1e1"),
    "a length beyond all doubles": length(` ${"9".repeat(400)}`),
    "a length that a double cannot hold": length(" 9007199254740993"),
    "a length that wraps in 64 bits": length(" 18446744073709551621"),
    "a length in quotes": length(' "5"'),
    "a length in other digits": length(" \xb2"),
    "an unknown transfer encoding": `${ok}Transfer-Encoding: gzip\r\n\r\n${body}`,
    "two transfer encodings": `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n${body}`,
    "two transfer encodings in two lines": `${ok}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n${body}`,
    "a transfer encoding with a parameter": `${ok}Transfer-Encoding: chunked;q=1\r\n\r\n${body}`,
    "a transfer encoding behind a vertical tab": `${ok}Transfer-Encoding:\x0bchunked\r\n\r\n${body}`,
    "an empty transfer encoding": `${ok}Transfer-Encoding:\r\n\r\n${body}`,
    "a folded header": header("X: a\r\n b"),
    "a header folded with a tab": header("X: a\r\n\tContent-Length: 6"),
    "a folded status line": `${ok} X: a\r\nContent-Length: 5\r\n\r\n${body}`,
    "a space before the colon": header("Transfer-Encoding : chunked"),
    "a tab before the colon": header("X\t: a"),
    "a header without a colon": header("X"),
    "a header without a name": header(": x"),
    "a space inside a name": header("X Y: a"),
    "a name that is no token": header("X(Y): a"),
    "a name of other letters": header("X\xe9: a"),
    "a NUL in a name": header("X\0: a"),
    "a NUL in a value": header("X: a\0b"),
    "a NUL in the reason": `HTTP/1.1 200 O\0K\r\nContent-Length: 5\r\n\r\n${body}`,
    "bare line feeds": `${ok}Content-Length: 5\r\n\r\n${body}`.replaceAll("\r\n", "\n"),
    "a bare line feed behind the status": `HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n${body}`,
    "a bare line feed in the reason": `HTTP/1.1 200 OK\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n${body}`,
    "a bare line feed in a value": header("X: a\nTransfer-Encoding: chunked"),
    "a bare line feed before the blank line": `${ok}Content-Length: 5\n\r\n${body}`,
    "a blank line that is a bare line feed": `${ok}Content-Length: 5\r\n\n${body}`,
    "a bare carriage return in a value": header("X: a\rTransfer-Encoding: chunked"),
    "a bare carriage return in the reason": `HTTP/1.1 200 OK\rX: a\r\nContent-Length: 5\r\n\r\n${body}`,
    "two carriage returns": `${ok}Content-Length: 5\r\r\n\r\n${body}`,
    "a chunk without a size": chunked(`\r\nhello\r\n0\r\n\r\n`),
    "a chunk with nothing but an extension": chunked(`;a=b\r\nhello\r\n0\r\n\r\n`),
    "a chunk whose size is no number": chunked("xyz\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a sign": chunked("+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a minus": chunked("-5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a prefix": chunked("0x5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a space before its size": chunked(" 5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with two sizes": chunked("5 5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with an underscore": chunked("0_5\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a letter behind its size": chunked("5g\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a NUL behind its size": chunked("5\0\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a bare carriage return behind its size": chunked("5\r;\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a bare carriage return in its extension": chunked("5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "a chunk whose size overflows 32 bits into something small": chunked("1000000000005\r\nhello\r\n0\r\n\r\n"),
    "a chunk whose size overflows 64 bits": chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "a chunk whose size is beyond all doubles": chunked(`${"f".repeat(400)}\r\nhello\r\n0\r\n\r\n`),
    "a chunk line that ends in a bare line feed": chunked("5\nhello\r\n0\r\n\r\n"),
    "an extension that ends in a bare line feed": chunked("5;a\nhello\r\n0\r\n\r\n"),
    "a chunk without an end": chunked("5\r\nhello0\r\n\r\n"),
    "a chunk that ends in a bare line feed": chunked("5\r\nhello\n0\r\n\r\n"),
    "a chunk that ends in a bare carriage return": chunked("5\r\nhello\r0\r\n\r\n"),
    "a chunk that is longer than it says": chunked("5\r\nhello, world\r\n0\r\n\r\n"),
    "a chunk that is shorter than it says": chunked("8\r\nhello\r\n0\r\n\r\n"),
    "a blank line between chunks": chunked("5\r\nhello\r\n\r\n0\r\n\r\n"),
    "a trailer that ends in a bare line feed": chunked("5\r\nhello\r\n0\r\nX: a\n\r\n"),
    "an end that is a bare line feed": chunked("5\r\nhello\r\n0\r\n\n"),
    "no HTTP": "garbage\r\n\r\n",
    "no HTTP, and no line": "garbage",
    "HTTP/0.9": "<html><body>It works!</body></html>",
    "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "the settings of HTTP/2": "\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64",
    "a status line of HTTP/2": "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a version without a minor": "HTTP/1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a version to come": "HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a version in lower case": "http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a TLS alert": "\x15\x03\x01\0\x02\x02\x16",
    "a blank line before the status": `\r\n${ok}Content-Length: 5\r\n\r\nhello`,
    "a space before the status": ` ${ok}Content-Length: 5\r\n\r\nhello`,
    "a request": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a status of two digits": "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a status of four digits": "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a status below all classes": "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a status that is no number": "HTTP/1.1 2x0 OK\r\nContent-Length: 5\r\n\r\nhello",
    "two spaces before the status": "HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "no status": "HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    "another protocol": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "another protocol after an interim response": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n",
    "an interim response with a malformed header": `HTTP/1.1 103 Early Hints\r\nLink : a\r\n\r\n${ok}Content-Length: 0\r\n\r\n`,
  };

  test.each(Object.entries(malformed))("%s is refused with a reason, and never ends", (_, text) => {
    const bytes = latin1(text);
    const whole = parse([bytes]);
    expect(whole.refusal).toBeString();
    expect(whole.refusal).not.toBe("");
    expect(whole.ended).toBe(false);
    for (let at = 1; at < bytes.length; at++) expect(parse(cutAt(bytes, at))).toEqual(whole);
    expect(parse(bytewise(bytes))).toEqual(whole);
  });

  test("a change of protocol is told apart from garbage", () => {
    expect(parse([latin1(malformed["another protocol"]!)]).refusal).toContain("switched");
  });

  test("what is not HTTP is refused at its first byte that could not be, not when its peer gets tired", () => {
    for (const text of ["g", "HTTP/2", "HTTP/1.1 200 OK\n", "\0", "\r"]) expect(parse([latin1(text)]).refusal).toBeString();
    for (const text of ["H", "HTTP/1.", "HTTP/1.1 200 OK\r"]) expect(parse([latin1(text)]).refusal).toBeNull();
  });

  test("a chunk that runs on is refused at once, not at the end of its line", () => {
    expect(parse([latin1(chunked("5\r\nhello, w"))]).refusal).toBeString();
  });
});

describe("everything has a bound", () => {
  const kibibytes = (count: number): number => count * 1024;
  const ok = "HTTP/1.1 200 OK\r\n";
  const end = "content-length: 0\r\n\r\n";
  const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`;
  const headOf = (bytes: number): string => `${ok}x: ${"y".repeat(bytes - ok.length - 5 - end.length)}\r\n${end}`;
  const headers = (count: number): string => `${ok}${"a:\r\n".repeat(count - 1)}${end}`;
  const lineOf = (bytes: number): string => `${chunked}0;${"x".repeat(bytes - 4)}\r\n\r\n`;
  const trailersOf = (bytes: number): string => {
    const last = "x".repeat(996 + ((bytes - 2) % 1_000));
    return `${chunked}0\r\n${`t:${"x".repeat(996)}\r\n`.repeat(Math.floor((bytes - 2) / 1_000) - 1)}t:${last}\r\n\r\n`;
  };
  const extensionsOf = (bytes: number): string => {
    const each = `1;${"x".repeat(99)}\r\nb\r\n`.repeat(Math.floor((bytes - 2) / 100) - 1);
    return `${chunked}${each}1;${"x".repeat(99 + ((bytes - 2) % 100))}\r\nb\r\n0\r\n\r\n`;
  };
  const interimsOf = (count: number): string => `${"HTTP/1.1 102 Processing\r\n\r\n".repeat(count)}${ok}${end}`;

  const bounds: readonly (readonly [string, (size: number) => string, number])[] = [
    ["a head, at 32 KiB", headOf, kibibytes(32)],
    ["headers, at 256", headers, 256],
    ["a line of the chunked framing, at 4 KiB", lineOf, kibibytes(4)],
    ["trailers, at 32 KiB together", trailersOf, kibibytes(32)],
    ["trailers, at 256", (count) => `${chunked}0\r\n${"a:\r\n".repeat(count)}\r\n`, 256],
    ["chunk extensions, at 32 KiB together", extensionsOf, kibibytes(32)],
    ["interim responses, at 16", interimsOf, 16],
    ["the digits of a chunk's size, at 12", (digits) => `${chunked}${"0".repeat(digits)}\r\n\r\n`, 12],
    ["the digits of a length, at 15", (digits) => `${ok}content-length: ${"0".repeat(digits)}\r\n\r\n`, 15],
  ];

  test.each(bounds)("%s, however it arrives", (_, make, max) => {
    const within = latin1(make(max));
    const beyond = latin1(make(max + 1));
    for (const chunks of cutNearEnd(within)) expect(parse(chunks)).toMatchObject({ refusal: null, ended: true });
    for (const chunks of cutNearEnd(beyond)) expect(parse(chunks)).toMatchObject({ refusal: expect.any(String), ended: false });
  });

  /** How many bytes a parser takes of something without an end. */
  function takenOf(start: string, more: string, pieceBytes: number): number {
    return takenBytes(start, more, pieceBytes, (chunks) => {
      const { refusal, ended } = parse(chunks);
      expect(refusal).toBeString();
      expect(ended).toBe(false);
    });
  }

  test.each([
    ["a head without an end", `${ok}x: `, "y"],
    ["a head of ten thousand headers", ok, "a: b\r\n"],
    ["a status line without an end", "HTTP/1.1 200 ", "O"],
    ["interim responses without an end", "", "HTTP/1.1 100 Continue\r\n\r\n"],
    ["ten megabytes of chunk extension", `${chunked}5;`, "x"],
    ["ten megabytes of space behind a size", `${chunked}5`, " "],
    ["ten megabytes of zeros before a size", chunked, "0"],
    ["a trailer without an end", `${chunked}0\r\nx: `, "y"],
    ["trailers without an end", `${chunked}0\r\n`, "x: y\r\n"],
  ])("%s is refused long before it is held", (_, start, more) => {
    const unit = more.length;
    for (const pieceBytes of [unit, unit * 100, unit * 200_000]) expect(takenOf(start, more, pieceBytes)).toBeLessThan(kibibytes(36));
  });

  test("headers that fit the head are refused where they are too many", () => {
    const { refusal } = parse([latin1(headers(10_000 / 4))]);
    expect(refusal).toContain("headers");
  });

  test("a body has none: chunks without an end are passed on", () => {
    const piece = latin1("4\r\nfour\r\n".repeat(1_000));
    let bytes = 0;
    const parser = new ResponseParser({ onHead() {}, onBody: (part) => void (bytes += part.length), onEnd() {} });
    expect(parser.feed(latin1(chunked))).toBeNull();
    for (let count = 0; count < 100; count++) expect(parser.feed(piece)).toBeNull();
    expect(bytes).toBe(400_000);
  });

  // With a copy of what came before for every byte, this takes far longer than it may. Lines are too short to tell.
  test("a head that is dripped byte by byte up to its bound does not cost its square", () => {
    /** The processor time for as many heads of this size as make 128 KiB, in milliseconds; the least of three. */
    const drip = (size: number): number => {
      const bytes = latin1(headOf(kibibytes(size)));
      const costs = [1, 2, 3].map(() => {
        const before = process.cpuUsage();
        for (let count = 0; count < 128 / size; count++) {
          let ended = false;
          const parser = new ResponseParser({ onHead() {}, onBody() {}, onEnd: () => void (ended = true) });
          for (let at = 0; at < bytes.length; at++) if (parser.feed(bytes.subarray(at, at + 1)) !== null) throw new Error("refused");
          expect(ended).toBe(true);
        }
        return process.cpuUsage(before).user / 1000;
      });
      return Math.min(...costs);
    };
    drip(1);
    // The same number of bytes: with its square it would be 32 times as much.
    expect(drip(32)).toBeLessThan(5 * drip(1));
  }, 120_000);
});

describe("whatever an upstream sends", () => {
  const words = fc.constantFrom(
    ...["HTTP/1.1 ", "HTTP/1.0 ", "HTTP/1.", "200", "204", "100", "101", " OK", "\r\n", "\r\n", "\r\n", "\r\n\r\n", "\r", "\n", "\0"],
    ...[":", ": ", " ", "\t", ";", ",", "x", "\xff", "0", "5", "a", "ffffffffffff", "Content-Length: 5\r\n", "Content-Length", "chunked"],
    ...["Transfer-Encoding: chunked\r\n", "Transfer-Encoding", "Connection: close\r\n", "5\r\nhello\r\n", "0\r\n\r\n"],
  );
  const soup = fc
    .tuple(
      fc.constantFrom("", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
      fc.array(words, { maxLength: 30 }),
    )
    .map(([start, all]) => latin1(start + all.join("")));
  const hurt = wounded(
    sample.map(({ bytes }) => bytes),
    words,
  );
  const anything = fc.oneof(fc.uint8Array({ maxLength: 200 }), soup, hurt, hurt);

  test("never makes it throw or tell a story out of order, and is judged alike however it is cut", () => {
    fc.assert(
      fc.property(anything, places, (bytes, at) => {
        const whole = parse([bytes], { closes: true });
        expect(parse(cutAtFractions(bytes, at), { closes: true })).toEqual(whole);
        expect(parse(bytewise(bytes), { closes: true })).toEqual(whole);
        // It is refused, or it lacks something, or it is complete: one of them, and no two.
        expect([whole.refusal !== null, whole.refusal === null && whole.missing !== null, whole.ended].filter(Boolean).length).toBe(1);
      }),
      { numRuns: numRuns(1_500) },
    );
  });

  test("never makes it throw, fed on after a refusal", () => {
    fc.assert(
      fc.property(fc.array(anything, { maxLength: 4 }), (all) => {
        const parser = new ResponseParser({ onHead() {}, onBody() {}, onEnd() {} });
        for (const bytes of all) {
          const refusal = parser.feed(Buffer.from(bytes));
          expect(refusal === null || refusal.length > 0).toBe(true);
        }
        parser.close();
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

test("a parser reads one response after the other, each for whoever asked for it and as if it were the first", () => {
  const parsed: string[] = [];
  const sink = (name: string): ConstructorParameters<typeof ResponseParser>[0] => ({
    onHead: (status) => void parsed.push(`${name} ${status}`),
    onBody: (bytes) => void parsed.push(`${name} ${Buffer.from(bytes).toString("latin1")}`),
    onEnd: () => void parsed.push(`${name} over`),
  });
  const parser = new ResponseParser(sink("nobody"));
  // As many as one response may have before it.
  const interims = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(16);
  const answers = [
    "content-length: 2\r\n\r\nok",
    "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n",
    "content-length: 2\r\n\r\nok",
  ];
  for (const [nth, answer] of answers.entries()) {
    parser.next(sink(`${nth}`));
    for (const bytes of bytewise(Buffer.from(`${interims}HTTP/1.1 200 OK\r\n${answer}`, "latin1")))
      expect(parser.feed(Buffer.from(bytes))).toBeNull();
    expect(parser.isComplete).toBeTrue();
    expect(parsed.splice(0)).toEqual([`${nth} 200`, `${nth} o`, `${nth} k`, `${nth} over`]);
  }
  expect(parser.hasExcessBytes).toBeFalse();
});
