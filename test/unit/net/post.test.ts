import { describe, expect, test } from "bun:test";
import { postReply } from "../../../src/net/client/post.ts";
import { makeReply } from "../../../src/net/client/reply.ts";

const wallNowMs = Date.UTC(2026, 10, 15, 12, 0, 0);

function waitOf(headers: Readonly<Record<string, string>>): number | null {
  const reply = makeReply(503, new Map(Object.entries(headers)), { next: () => Promise.resolve(null), cancel: () => undefined });
  return postReply(reply, "", wallNowMs).retryAfterMs;
}

describe("a receiver that asks to wait", () => {
  test("may say it in seconds or as a date", () => {
    expect(waitOf({ "retry-after": "7" })).toBe(7_000);
    expect(waitOf({ "retry-after": "Sun, 15 Nov 2026 12:01:00 GMT" })).toBe(60_000);
  });

  test("is believed by its own clock, if it shows it", () => {
    expect(waitOf({ "retry-after": "Sun, 15 Nov 2026 12:01:00 GMT", date: "Sun, 15 Nov 2026 12:00:50 GMT" })).toBe(10_000);
  });

  test("waits for nothing with a date that is over, is none, or that other headers are about", () => {
    for (const date of ["Sun, 15 Nov 2026 11:59:59 GMT", "Sun, 99 Nov 2026 12:01:00 GMT", "tomorrow", "-1", ""])
      expect([date, waitOf({ "retry-after": date })]).toEqual([date, null]);
    expect([waitOf({}), waitOf({ "x-ratelimit-reset": "60" })]).toEqual([null, null]);
  });

  test("cannot ask for more than an hour", () => {
    for (const text of ["999999999", "Sun, 15 Nov 2099 12:00:00 GMT"]) expect(waitOf({ "retry-after": text })).toBe(3_600_000);
  });
});
