import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { errorBody, type ErrorBody } from "../../../src/dialects/errors/error-body.ts";
import { retryAfterMs, waitMaxMs } from "../../../src/dialects/errors/retry-after.ts";
import { anyText, numRuns } from "../../support/properties.ts";
import { slowed } from "../../support/slowed.ts";

const nowMs = Date.UTC(2026, 10, 15, 12, 0, 0);

type Headers = Readonly<Record<string, string>>;

function read(headers: Headers, body: ErrorBody | null = null, wallNowMs = nowMs): number | null {
  return retryAfterMs((name) => headers[name] ?? null, body, wallNowMs);
}

function saying(message: string): ErrorBody {
  return errorBody(JSON.stringify({ error: { message } }));
}

describe("retry-after-ms and retry-after", () => {
  const cases: readonly [Headers, number | null][] = [
    [{}, null],
    [{ "retry-after": "0" }, 0],
    [{ "retry-after": "5" }, 5_000],
    [{ "retry-after": " 5 " }, 5_000],
    [{ "retry-after": "5.5" }, 5_500],
    [{ "retry-after": "1e9" }, waitMaxMs],
    [{ "retry-after": "999999999999999999999" }, waitMaxMs],
    [{ "retry-after": "20s" }, 20_000],
    [{ "retry-after-ms": "1500" }, 1_500],
    [{ "retry-after-ms": "0.4" }, 0],
    [{ "retry-after-ms": "1500", "retry-after": "9" }, 1_500],
    [{ "retry-after-ms": "soon", "retry-after": "9" }, 9_000],
    [{ "retry-after-ms": "-5", "retry-after": "9" }, 9_000],
    ...["-1", "-0", "+5", "NaN", "Infinity", "-Infinity", "1e400", "0x10", "1_000", "five", "", " ", "5 minutes ago", "١٢"].map(
      (garbage): [Headers, null] => [{ "retry-after": garbage }, null],
    ),
  ];
  test.each(cases)("%j asks for %p ms", (headers, expected) => {
    expect(read(headers)).toBe(expected);
  });

  test("a header of any length is looked at only as far as a time could be long", () => {
    expect(read({ "retry-after": "1".repeat(1_000_000) })).toBeNull();
    expect(read({ "retry-after": `${" ".repeat(1_000_000)}5` })).toBeNull();
  });
});

describe("dates", () => {
  const inAMinute = [
    "Sun, 15 Nov 2026 12:01:00 GMT",
    "Sunday, 15-Nov-26 12:01:00 GMT",
    "Sun Nov 15 12:01:00 2026",
    "sun, 15 nov 2026 12:01:00 gmt",
  ];
  test.each(inAMinute)("%s is a minute from now", (date) => {
    expect(read({ "retry-after": date })).toBe(60_000);
  });

  test("a day of one digit is padded with a space in the oldest form", () => {
    expect(read({ "retry-after": "Fri Nov  6 08:49:37 2026" }, null, Date.UTC(2026, 10, 6, 8, 49, 30))).toBe(7_000);
  });

  test("a date is read against the response's own clock, however wrong ours or theirs is", () => {
    for (const skewMs of [-3_600_000, 3_600_000, 86_400_000]) {
      const date = new Date(nowMs + skewMs).toUTCString();
      const until = new Date(nowMs + skewMs + 30_000).toUTCString();
      expect(read({ date, "retry-after": until })).toBe(30_000);
      expect(read({ date, "retry-after": until }, null, Number.NaN)).toBe(30_000);
    }
  });

  test("without a readable date the given clock is used", () => {
    expect(read({ date: "today", "retry-after": "Sun, 15 Nov 2026 12:01:00 GMT" })).toBe(60_000);
  });

  test("without any clock a date is not usable", () => {
    for (const date of inAMinute) expect(read({ "retry-after": date }, null, Number.NaN)).toBeNull();
  });

  test("a date in the past is ignored, and so is one that does not exist", () => {
    for (const date of ["Sun, 15 Nov 2026 11:59:00 GMT", "Sun, 99 Nov 2026 12:01:00 GMT", "Sun, 15 Xyz 2026 12:01:00 GMT"]) {
      expect(read({ "retry-after": date })).toBeNull();
    }
  });

  test("a date far ahead is limited to the longest wait", () => {
    expect(read({ "retry-after": "Sun, 15 Nov 2099 12:00:00 GMT" })).toBe(waitMaxMs);
  });

  test("a year of two digits that would be far ahead is in the past", () => {
    expect(read({ "retry-after": "Sunday, 06-Nov-94 08:49:37 GMT" })).toBeNull();
    expect(read({ "retry-after": "Sunday, 06-Nov-70 08:49:37 GMT" })).toBe(waitMaxMs);
  });
});

describe("limits that reset", () => {
  test.each([
    ["12ms", 12],
    ["1.2s", 1_200],
    ["6m0s", 360_000],
    ["1h2m3s", waitMaxMs],
    ["59m59.5s", 3_599_500],
    ["880µs", 1],
    ["60", 60_000],
  ])("%s is a duration of %p ms", (text, expected) => {
    expect(read({ "x-ratelimit-reset-requests": text })).toBe(expected);
  });

  test.each(["-5s", "s", "5x", "1.2.3s", "5s later", "m5", "--", "NaNs", "Infinity", "0s"])("%s is no wait", (text) => {
    expect(read({ "x-ratelimit-reset-requests": text })).toBeNull();
  });

  test("only a limit that is used up counts", () => {
    const headers = { "x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "30s" };
    const left = (requests: string, tokens: string): Headers => ({
      ...headers,
      "x-ratelimit-remaining-requests": requests,
      "x-ratelimit-remaining-tokens": tokens,
    });
    expect(read(left("0", "10"))).toBe(1_000);
    expect(read(left("10", "0"))).toBe(30_000);
    expect(read(left("0", "0"))).toBe(30_000);
    expect(read(left("10", "10"))).toBeNull();
    expect(read({ ...headers, "x-ratelimit-remaining-requests": "10" })).toBeNull();
  });

  test("where nothing says what is left, the soonest reset is taken", () => {
    expect(read({ "x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "30s" })).toBe(1_000);
    expect(read({ "x-ratelimit-reset-requests": "0s", "x-ratelimit-reset-tokens": "30s" })).toBe(30_000);
  });

  test.each([
    ["seconds from now", "90", 90_000],
    ["seconds of the epoch", String(nowMs / 1000 + 90), 90_000],
    ["milliseconds of the epoch", String(nowMs + 90_000), 90_000],
    ["seconds of the epoch, past", String(nowMs / 1000 - 90), null],
    ["a timestamp", "2026-11-15T12:01:30Z", 90_000],
  ])("x-ratelimit-reset in %s", (_, text, expected) => {
    expect(read({ "x-ratelimit-reset": text })).toBe(expected);
  });

  test.each([
    ["2026-11-15T12:00:20Z", 20_000],
    ["2026-11-15T12:00:20.250Z", 20_250],
    ["2026-11-15T14:00:20+02:00", 20_000],
    ["2026-11-15T07:00:20-05:00", 20_000],
    ["2026-11-15T11:59:00Z", null],
    ["2026-13-15T12:00:20Z", null],
    ["2026-11-15", null],
  ])("a limit that resets at %s", (text, expected) => {
    expect(read({ "ratelimit-tokens-reset": text, "ratelimit-tokens-remaining": "0" })).toBe(expected);
  });

  test("an upstream that puts its name before these headers is read through a header that does the same", () => {
    const headers: Headers = {
      "example-ratelimit-input-tokens-reset": "2026-11-15T12:00:20Z",
      "example-ratelimit-input-tokens-remaining": "0",
    };
    expect(retryAfterMs((name) => headers[name] ?? headers[`example-${name}`] ?? null, null, nowMs)).toBe(20_000);
  });

  test("what is asked for this refusal is preferred to the state of the limits", () => {
    const headers = { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s" };
    expect(read({ ...headers, "retry-after": "3" })).toBe(3_000);
    expect(read(headers, saying("Please try again in 7.2s."))).toBe(7_200);
  });
});

describe("the body", () => {
  test("a delay in the details", () => {
    const body = errorBody('[{"error":{"code":429,"details":[{"reason":"X"},{"@type":"RetryInfo","retryDelay":"34.4s"}]}}]');
    expect(read({}, body)).toBe(34_400);
  });

  test.each([
    ["Please try again in 20s.", 20_000],
    ["Please try again in 7m12s. InboundCall the console.", 432_000],
    ["Please retry in 1m3.2s", 63_200],
    ["Please retry after 6 seconds.", 6_000],
    ["TRY AGAIN IN 500MS", 500],
    ["try again in 1 minute and 5 seconds", 65_000],
    ["Retry after 1 hour, 2 minutes", waitMaxMs],
    ["Please retry in 34.074824224s.", 34_075],
    ["Please try again later.", null],
    ["try again in 5 parsecs", null],
    ["try again in -5 seconds", null],
    ["retry after 6", null],
    ["We retried in 5 places", null],
  ])("%s", (message, expected) => {
    expect(read({}, saying(message))).toBe(expected);
  });
});

describe("whatever is sent", () => {
  const names = [
    "date",
    "retry-after",
    "retry-after-ms",
    "x-ratelimit-reset",
    "x-ratelimit-reset-requests",
    "x-ratelimit-remaining-requests",
    "ratelimit-tokens-reset",
    "ratelimit-tokens-remaining",
  ];
  const value = fc.oneof(
    anyText(),
    fc.double().map(String),
    fc.bigInt().map(String),
    fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
    fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
    fc
      .array(fc.tuple(fc.double({ noNaN: true }), fc.constantFrom("h", "m", "s", "ms", "d", "ns", "")))
      .map((parts) => parts.flat().join("")),
  );
  const headers = fc.dictionary(fc.constantFrom(...names), value);
  const clock = fc.oneof(fc.constant(nowMs), fc.double());

  test("the answer is nothing, or a whole number within the bound", () => {
    fc.assert(
      fc.property(headers, value, clock, (sent, text, wallNowMs) => {
        const asked = read(sent, saying(`Please try again in ${text}`), wallNowMs);
        if (asked !== null) {
          expect(Number.isInteger(asked)).toBe(true);
          expect(asked).toBeGreaterThanOrEqual(0);
          expect(asked).toBeLessThanOrEqual(waitMaxMs);
        }
      }),
      { numRuns: numRuns(500) },
    );
  }, 120_000);

  test("every whole number of seconds up to the bound is obeyed", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3_600 }), (seconds) => {
        expect(read({ "retry-after": String(seconds) })).toBe(seconds * 1000);
        expect(read({ "retry-after": new Date(nowMs + seconds * 1000).toUTCString() })).toBe(seconds * 1000);
        expect(read({ "x-ratelimit-reset-tokens": `${Math.floor(seconds / 60)}m${seconds % 60}s` })).toBe(
          seconds === 0 ? null : seconds * 1000,
        );
      }),
    );
  });

  test("hostile text takes linear time", () => {
    const size = 1_000_000;
    const texts = ["1", "1m", "1.", "try again in ", "retry after 1", "retry in 1m1", " ", "e", "9", "[", "2026-", "Sun, "].map((piece) =>
      piece.repeat(Math.ceil(size / piece.length)),
    );
    for (const text of texts) {
      const sent = Object.fromEntries(names.map((name) => [name, text]));
      const body: ErrorBody = { ...saying(""), message: text, details: { reasons: [], retryDelay: text, quotas: [] } };
      // The quickest of a few, because a machine may be busy with something else during any one of them.
      const runsMs = [1, 2, 3].map(() => {
        const beganMs = performance.now();
        read(sent, body);
        return performance.now() - beganMs;
      });
      expect(Math.min(...runsMs)).toBeLessThan(slowed(20));
    }
  });
});
