import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { HeadMemory } from "../src/wire/head-memory.ts";
import { allHeaders } from "./support/header-lines.ts";

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

function told(memory: HeadMemory, bytes: Buffer, at: number, end: number): unknown {
  const read = memory.read(bytes, at, end);
  return typeof read === "string" ? read : { first: read.first, headers: Object.entries(allHeaders(read)) };
}

describe("the memory of heads", () => {
  test("never changes what is read: each head is the same as for one who has seen no other", () => {
    fc.assert(
      fc.property(fc.array(head, { minLength: 1, maxLength: 12 }), fc.nat({ max: 40 }), (heads, lead) => {
        const memory = new HeadMemory(100);
        for (const bytes of heads) {
          const moved = Buffer.concat([Buffer.alloc(lead, "\n"), bytes]);
          expect(told(memory, moved, lead, moved.length)).toEqual(told(new HeadMemory(100), bytes, 0, bytes.length));
        }
      }),
      { numRuns: 500 },
    );
  });

  test("holds no credential", () => {
    const memory = new HeadMemory(100);
    const bytes = Buffer.from(
      "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer sk-canary\r\nX-Api-Key: sk-canary\r\nA: 1\r\nB: 2\r\n\r\n",
    );
    for (let count = 0; count < 3; count += 1) memory.read(bytes, 0, bytes.length);
    const kept = JSON.stringify(memory, (_, value: unknown) =>
      value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
    );
    expect(kept).toContain("GET / HTTP/1.1");
    expect(Buffer.from((memory as unknown as { known: { bytes: Buffer } }).known.bytes).toString("latin1")).not.toContain("canary");
    expect(kept).not.toContain("canary");
  });

  test("knows no more headers than its bound", () => {
    const bytes = Buffer.from(`GET / HTTP/1.1\r\n${"a: b\r\n".repeat(11)}\r\n`);
    const memory = new HeadMemory(10);
    for (let count = 0; count < 3; count += 1) expect(memory.read(bytes, 0, bytes.length)).toBe("there are too many headers");
  });
});
