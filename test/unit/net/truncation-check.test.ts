import { describe, expect, test } from "bun:test";
import { TruncationCheck, needsTruncationCheck } from "../../../src/net/client/truncation-check.ts";
import { HeaderLines } from "../../../src/net/message/header-lines.ts";

function head(headers: Readonly<Record<string, string>>): HeaderLines {
  return new HeaderLines("HTTP/1.1 200 OK", Object.keys(headers), Object.values(headers));
}

describe("the end of an answer over TLS is not proven", () => {
  test.each([
    ["where nothing but a close tells it", 200, {}],
    ["of text", 200, { "content-type": "text/plain; charset=utf-8" }],
    ["of audio", 200, { "content-type": "audio/mpeg", "content-encoding": "identity" }],
  ])("%s", (_, status, headers) => {
    expect(needsTruncationCheck(status, head(headers))).toBe(true);
  });

  test.each([
    ["has a length", 200, { "content-length": "3" }],
    ["has chunks", 200, { "transfer-encoding": "chunked" }],
    ["is JSON, whose reader knows its end", 200, { "content-type": "application/json" }],
    ["is a kind of JSON", 200, { "content-type": "application/problem+json; charset=utf-8" }],
    ["is a stream of events", 200, { "content-type": "Text/Event-Stream" }],
    ["is compressed", 200, { "content-type": "text/plain", "content-encoding": "gzip" }],
    ["is a refusal", 413, { "content-type": "text/html" }],
    ["has no body", 204, {}],
  ])("unless it %s", (_, status, headers) => {
    expect(needsTruncationCheck(status, head(headers))).toBe(false);
  });
});

test("a body is a document where it begins and ends as one, however it is cut and with whatever blanks around it", () => {
  const isDocument = (...parts: readonly string[]): boolean => {
    const end = new TruncationCheck();
    for (const part of parts) end.note(Buffer.from(part));
    return end.isJsonDocument;
  };
  expect([isDocument('{"a":1}'), isDocument(" ", "\n{", '"a":1', "}", "\r\n", " ")]).toEqual([true, true]);
  expect([isDocument(), isDocument(" "), isDocument('{"a":1'), isDocument("Hello}"), isDocument("{", "}", "x")]).toEqual(
    Array.from({ length: 5 }, () => false),
  );
});
