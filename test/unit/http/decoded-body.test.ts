import { headText } from "../../support/http-answer.ts";
import { expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { decodedBody, encodingMistake, formatsOf } from "../../../src/http/decoded-body.ts";
import { ResponseHead } from "../../../src/net/server/http-response.ts";

test.each([
  ["gzip", ["gzip"]],
  ["GZIP", ["gzip"]],
  ["x-gzip", ["gzip"]],
  ["br", ["brotli"]],
  ["zstd", ["zstd"]],
  ["identity", []],
  ["", []],
  ["gzip, identity", ["gzip"]],
  // The last coding was applied last, and is undone first.
  ["gzip, zstd", ["zstd", "gzip"]],
  ["gzip,gzip,gzip", null],
  ["compress", null],
  ["gzip, lzma", null],
  ["gzip;q=1", null],
  ["gzip,".repeat(100), null],
])("the encoding %p is undone by %p", (encoding, formats) => {
  expect(formatsOf(encoding)).toEqual(formats);
});

test("an unknown encoding is refused with the list of those that are known", () => {
  const head = new ResponseHead("id");
  expect(encodingMistake({ header: () => "compress" }, head)).toMatchObject({ status: 415, code: "unsupported_encoding" });
  expect(headText(head)).toContain("\r\naccept-encoding: gzip, deflate, br, zstd");
  expect(encodingMistake({ header: () => null }, head)).toBeNull();
});

/** In gzip, with a comment in the header that lowers the ratio and expands to nothing. */
function padded(bytes: Uint8Array, size: number): Buffer {
  const packed = gzipSync(bytes);
  const comment = Buffer.concat([Buffer.alloc(size - packed.length - 1, "a"), Buffer.alloc(1)]);
  packed[3] = 0b1_0000;
  return Buffer.concat([packed.subarray(0, 10), comment, packed.subarray(10)]);
}

test("two encodings that each expand a hundred times are as much of a bomb as one that expands ten thousand times", async () => {
  const size = 64 * 1024 * 1024;
  const inner = padded(Buffer.alloc(size), Math.ceil(size / 99));
  const outer = padded(inner, Math.ceil(inner.length / 99));
  expect([Math.round(size / inner.length), Math.round(inner.length / outer.length)]).toEqual([99, 99]);
  const parts: (Uint8Array | null)[] = [outer, null];
  const body = decodedBody({ declaredBytes: outer.length, next: async () => parts.shift() ?? null, discard: () => {} }, "gzip, gzip");
  let bytes = 0;
  let part = await body.next();
  for (; part instanceof Uint8Array; part = await body.next()) bytes += part.length;
  expect(part).toMatchObject({ status: 413 });
  expect(bytes).toBeLessThanOrEqual(1024 * 1024);
});
