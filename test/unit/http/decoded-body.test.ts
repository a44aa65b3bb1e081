import { expect, test } from "bun:test";
import { encodingMistake, formatsOf } from "../../../src/http/decoded-body.ts";
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
  expect(head.toText("", false)).toContain("\r\naccept-encoding: gzip, deflate, br, zstd");
  expect(encodingMistake({ header: () => null }, head)).toBeNull();
});
