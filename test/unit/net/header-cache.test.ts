import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { keyHeaders } from "../../../src/http/authenticate.ts";
import { HeaderCache } from "../../../src/net/message/header-cache.ts";
import { allHeaders } from "../../support/header-lines.ts";

const line = fc.oneof(
  fc.constantFrom("Host: a", "host: b", "Content-Type: application/json", "Accept: */*", "Authorization: Bearer one", "X-Api-Key: two"),
  fc
    .tuple(fc.constantFrom("Date", "X-Request-Id", "Content-Length"), fc.integer({ min: 0, max: 12 }))
    .map(([name, at]) => `${name}: ${at}`),
  fc.constantFrom("bad line", " folded: yes", "a : b", "x: y\rz", ": none", "é: x"),
);
const head = fc
  .tuple(fc.constantFrom("GET / HTTP/1.1", "POST /v1/x HTTP/1.1"), fc.array(line, { maxLength: 6 }))
  .map(([first, lines]) => Buffer.from(`${[first, ...lines].join("\r\n")}\r\n\r\n`, "latin1"));

function parsed(cache: HeaderCache, bytes: Buffer, at: number, end: number): unknown {
  const read = cache.parse(bytes, at, end);
  return typeof read === "string" ? read : { first: read.first, headers: Object.entries(allHeaders(read)) };
}

describe("the header cache", () => {
  test("never changes what is read: each head is the same as for one who has seen no other", () => {
    fc.assert(
      fc.property(fc.array(head, { minLength: 1, maxLength: 12 }), fc.nat({ max: 40 }), (heads, lead) => {
        const cache = new HeaderCache(100);
        for (const bytes of heads) {
          const moved = Buffer.concat([Buffer.alloc(lead, "\n"), bytes]);
          expect(parsed(cache, moved, lead, moved.length)).toEqual(parsed(new HeaderCache(100), bytes, 0, bytes.length));
        }
      }),
      { numRuns: 500 },
    );
  });

  test("never changes what is read where only values differ", () => {
    const names = ["Host", "Authorization", "Date", "X-Request-Id", "Content-Length"];
    const values = fc.array(fc.constantFrom("0", "1", " 1 ", ""), { minLength: 5, maxLength: 5 });
    const alike = fc
      .tuple(fc.constantFrom("GET / HTTP/1.1", "POST /v1/x HTTP/1.1"), values)
      .map(([first, given]) => Buffer.from(`${first}\r\n${names.map((name, at) => `${name}: ${given[at]!}\r\n`).join("")}\r\n`, "latin1"));
    for (const secretAt of [1, -1]) {
      if (secretAt < 0) names[1] = "Accept";
      fc.assert(
        fc.property(fc.array(alike, { minLength: 3, maxLength: 12 }), (heads) => {
          const cache = new HeaderCache(100);
          for (const bytes of heads)
            expect(parsed(cache, bytes, 0, bytes.length)).toEqual(parsed(new HeaderCache(100), bytes, 0, bytes.length));
        }),
        { numRuns: 500 },
      );
    }
  });

  test("makes a head that is the same in every byte once, unless it holds a credential", () => {
    const cache = new HeaderCache(100);
    const read = (text: string): unknown => cache.parse(Buffer.from(text), 0, text.length);
    const same = "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\n\r\n";
    for (let count = 0; count < 3; count += 1) read(same);
    expect(read(same)).toBe(read(same));
    expect(read("HTTP/1.1 404 No\r\nA: 1\r\nB: 2\r\n\r\n")).toMatchObject({ first: "HTTP/1.1 404 No" });
    expect(read(same)).toMatchObject({ first: "HTTP/1.1 200 OK" });
    const secretive = new HeaderCache(100);
    const secret = Buffer.from("GET / HTTP/1.1\r\nAuthorization: Bearer one\r\n\r\n");
    for (let count = 0; count < 4; count += 1)
      expect(parsed(secretive, secret, 0, secret.length)).toEqual({ first: "GET / HTTP/1.1", headers: [["authorization", "Bearer one"]] });
  });

  test("holds no credential, whichever header it came in", () => {
    const cache = new HeaderCache(100);
    const lines = ["Authorization", "Cookie", ...keyHeaders].map((name) => `${name}: sk-canary\r\n`).join("");
    const bytes = Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${lines}A: 1\r\nB: 2\r\n\r\n`);
    for (let count = 0; count < 3; count += 1) cache.parse(bytes, 0, bytes.length);
    const dump = JSON.stringify(cache, (_, value: unknown) =>
      value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
    );
    expect(dump).toContain("GET / HTTP/1.1");
    expect(Buffer.from((cache as unknown as { cached: { bytes: Buffer } }).cached.bytes).toString("latin1")).not.toContain("canary");
    expect(dump).not.toContain("canary");
  });

  test("knows no more headers than its bound", () => {
    const bytes = Buffer.from(`GET / HTTP/1.1\r\n${"a: b\r\n".repeat(11)}\r\n`);
    const cache = new HeaderCache(10);
    for (let count = 0; count < 3; count += 1) expect(cache.parse(bytes, 0, bytes.length)).toBe("there are too many headers");
  });
});
