import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import fc from "fast-check";
import type { Codec, ErrorResponse } from "../../../src/dialects/dialect.ts";
import { errorBody } from "../../../src/dialects/errors/error-body.ts";
import { explain as explained, explainInBand as explainedInBand } from "../../../src/dialects/errors/explain.ts";
import { sanitizedFailure } from "../../../src/gateway/attempt/sanitized-failure.ts";
import { failure, type Failure, type FailureKind } from "../../../src/operations/failure.ts";
import { anyText, numRuns } from "../../support/properties.ts";
import { slowed } from "../../support/slowed.ts";

interface Case {
  readonly about: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly expect: Partial<Failure>;
}

/** As it is passed on where the client had written nothing of it. */
const explain = (refused: ErrorResponse, wallMs?: number): Failure => sanitizedFailure(explained(refused, wallMs), "", (text) => text);
const explainInBand = (error: unknown): Failure => sanitizedFailure(explainedInBand(error), "", (text) => text);

const folder = new URL("../../fixtures/errors/", import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith(".json"));

function refusal(status: number, body: unknown = "", headers: Readonly<Record<string, string>> = {}): ErrorResponse {
  return { status, header: (name) => headers[name] ?? null, body: typeof body === "string" ? body : JSON.stringify(body) };
}

for (const file of files) {
  const kind = file.slice(0, -".json".length);
  const cases = JSON.parse(readFileSync(new URL(file, folder), "utf8")) as readonly Case[];
  describe(`explained as ${kind}`, () => {
    test.each(cases.map((each) => [each.about, each] as const))("%s", (_, { status, headers, body, expect: expected }) => {
      const failure = status === undefined ? explainInBand(body) : explain(refusal(status, body, headers));
      expect(failure).toMatchObject({ kind: kind as FailureKind, ...expected });
    });
  });
}

test("every kind an upstream's answer can mean has answers in the fixtures", () => {
  const kinds: readonly FailureKind[] = [
    "bad_response",
    "ceiling",
    "content_policy",
    "context_length",
    "invalid_request",
    "misconfigured",
    "model_failed",
    "model_missing",
    "overloaded",
    "quota_exhausted",
    "rate_limited",
    "redirected",
    "timed_out",
    "too_large",
    "unauthorized",
    "unsupported",
  ];
  expect(files.toSorted()).toEqual(kinds.map((kind) => `${kind}.json`));
});

test("it fits a codec", () => {
  const codec: Pick<Codec<never>, "explain"> = { explain };
  expect(codec.explain(refusal(503)).kind).toBe("overloaded");
});

describe("a status without any body", () => {
  const named: Readonly<Record<number, FailureKind>> = {
    0: "bad_response",
    101: "redirected",
    401: "unauthorized",
    402: "quota_exhausted",
    403: "unauthorized",
    404: "misconfigured",
    405: "misconfigured",
    406: "misconfigured",
    407: "misconfigured",
    408: "overloaded",
    410: "misconfigured",
    413: "too_large",
    415: "misconfigured",
    421: "misconfigured",
    424: "overloaded",
    425: "overloaded",
    426: "misconfigured",
    429: "rate_limited",
    451: "content_policy",
    498: "overloaded",
    501: "model_missing",
    504: "timed_out",
    524: "timed_out",
    999: "bad_response",
  };
  const byClass: Readonly<Record<string, FailureKind>> = {
    1: "bad_response",
    2: "bad_response",
    3: "redirected",
    4: "invalid_request",
    5: "overloaded",
  };
  const statuses = [0, ...Array.from({ length: 500 }, (_, index) => 100 + index), 999];

  test("has one meaning, from 100 to 599 and beyond", () => {
    const read = statuses.map((status) => `${status} ${explain(refusal(status)).kind}`);
    expect(read).toEqual(statuses.map((status) => `${status} ${named[status] ?? byClass[String(status).charAt(0)]}`));
  });

  test("is kept in the failure and in its detail", () => {
    for (const status of statuses) {
      const failure = explain(refusal(status));
      expect(failure.status).toBe(status);
      expect(failure.detail).toBe(`${status}: no message (empty)`);
    }
  });

  test("means the same with a page of markup, which is never shown to a client, but never that the client did wrong", () => {
    const page = "<html><body>model api key billing content policy context length max_tokens at most 5</body></html>";
    // A page with 403 is a firewall's, and has a test of its own.
    for (const status of statuses.filter((each) => each !== 403)) {
      const empty = explain(refusal(status));
      const bare = empty.kind === "invalid_request" ? failure("bad_response", "") : empty;
      const { kind, publicMessage, ceiling } = explain(refusal(status, page));
      expect({ status, kind, publicMessage, ceiling }).toEqual({
        status,
        kind: bare.kind,
        publicMessage: bare.publicMessage,
        ceiling: null,
      });
    }
  });

  test("403 from a firewall in front of the upstream closes no credential: it judged one request", () => {
    for (const body of ["<html><title>Attention Required!</title></html>", "error code: 1020"]) {
      expect(explain(refusal(403, body))).toMatchObject({ kind: "misconfigured", scope: "request", blame: "channel", status: 403 });
    }
    expect(explain(refusal(403, { error: { message: "Your account may not use this." } }))).toMatchObject({ scope: "credential" });
  });

  const pages: readonly (readonly [string, string])[] = [
    [
      "nginx",
      "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>The plain HTTP request was sent to HTTPS port</center>\r\n<hr><center>nginx/1.24.0</center>\r\n</body>\r\n</html>\r\n",
    ],
    [
      "Apache",
      '<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><head>\n<title>400 Bad Request</title>\n</head><body>\n<h1>Bad Request</h1>\n<p>Your browser sent a request that this server could not understand.<br />\nReason: You\'re speaking plain HTTP to an SSL-enabled server port.<br />\n Instead use the HTTPS scheme to access this URL, please.<br />\n</p>\n</body></html>\n',
    ],
    ["a server in Go", "Client sent an HTTP request to an HTTPS server.\n"],
  ];

  test.each(pages)("400 of a server to which plain HTTP was sent where it expects TLS is the channel's fault: %s", (_, page) => {
    expect(explain(refusal(400, page))).toMatchObject({ kind: "misconfigured", blame: "channel", scope: "host" });
  });

  test("400 that quotes such words of a client, in an answer for programs or far down in a page, switches no host off", () => {
    const quoted = "the plain http request was sent to https port";
    expect(explain(refusal(400, JSON.stringify({ error: { message: `Unexpected: ${quoted}` } }))).kind).toBe("invalid_request");
    expect(explain(refusal(400, `<html><p>${"Blocked. ".repeat(50)}${quoted}</p></html>`)).kind).toBe("bad_response");
  });

  test("out of any range is no answer", () => {
    for (const status of [-1, 42, 99, 600, 1000, 2 ** 31, 200.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(explain(refusal(status)).kind).toBe("bad_response");
    }
  });
});

describe("what clients see", () => {
  test("an upstream's own problem is reported with a fixed text, without its codes", () => {
    for (const status of [401, 402, 403, 429, 500, 503]) {
      const body = { error: { message: "Account Acme Ltd is over its plan", type: "acme", code: "acme_code", param: "acme" } };
      const { publicMessage, type, code, param } = explain(refusal(status, body));
      expect([type, code, param]).toEqual([null, null, null]);
      expect(publicMessage).not.toContain("Acme");
    }
  });

  test("a client's mistake keeps its type, code and parameter only where they can be repeated as they are", () => {
    const body = { error: { message: "no", type: "a sentence, not a type", code: "sk-live-1234567890", param: "messages[0].content" } };
    expect(explain(refusal(400, body))).toMatchObject({ type: null, code: null, param: "messages[0].content" });
  });

  test("a message is cut, and control characters are gone from it", () => {
    const { publicMessage, detail } = explain(
      refusal(400, { error: { message: `a\r\nb\u0000\u001b[31m\u202e${"long word ".repeat(500)}` } }),
    );
    expect(publicMessage.length).toBeLessThanOrEqual(1000);
    expect(publicMessage).toStartWith("a b[31mlong word");
    expect(detail.length).toBeLessThanOrEqual(300);
    expect(publicMessage + detail).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });

  test("names are not taken for secrets", () => {
    const message =
      "Use max_completion_tokens with example-chat-large-20241022 or vendor/Example-3-70B-Instruct-Turbo; see context_length_exceeded, InvalidParameterException and https://docs.example.com/guides/structured-outputs";
    expect(explain(refusal(400, { error: { message } })).publicMessage).toBe(message);
  });

  test.each([
    ["Bad key sk-abc", "Bad key [redacted]"],
    ["Bad key sk-proj-****wxyz.", "Bad key [redacted]"],
    ["Authorization: Bearer abc.def-1 is bad", "Authorization: Bearer [redacted] is bad"],
    ["api_key=short", "api_key=[redacted]"],
    ["Incorrect value, API key provided: short", "Incorrect value, API key provided: [redacted]"],
    ["in org-abc123 and proj_9x8y7z", "in [redacted] and [redacted]"],
    ["ask jo.doe+x@mail.example.com now", "ask [redacted] now"],
    ["hash 3f2a9c1e5b7d4860a1c2e3f4", "hash [redacted]"],
    ["blob QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "blob [redacted]"],
    ["id 123e4567-e89b-42d3-a456-426614174000", "id [redacted]"],
    ["hf_AbCdEfGhIjKlMnOpQrStUvWxYz", "[redacted]"],
    ["a task-list, a risk-free org-wide plan", "a task-list, a risk-free org-wide plan"],
  ])("%s", (message, expected) => {
    expect(explain(refusal(418, { error: { message } })).publicMessage).toBe(expected);
  });

  test("a prompt that a validator quotes reaches neither the client nor the log", () => {
    for (const message of [
      "1 validation error: Input should be a string [type=string_type, input_value={'secret': 'my prompt'}, input_type=dict]",
      "[{'msg': 'Field required', 'input': 'my prompt'}]",
      '{"msg":"Field required","input":"my prompt"}',
    ]) {
      const { publicMessage, detail } = explain(refusal(400, { error: { message } }));
      expect(publicMessage + detail).not.toContain("my prompt");
    }
  });
});

describe("text of the client that the upstream repeats", () => {
  const lures = [
    "incorrect api key provided",
    "your credit balance is too low",
    "insufficient balance",
    "invalid model",
    "the model does not exist",
    "usage limit reached",
    "max_tokens: at most 1",
  ];
  const echoes: readonly ((lure: string) => unknown)[] = [
    (lure) => ({ error: { message: `Invalid value: '${lure}'. Supported values are: 'system' and 'user'.`, param: null } }),
    (lure) => ({ error: { message: `Invalid value: 'x'${lure}'y'. Supported values are: 'system'.`, param: null } }),
    (lure) => ({ error: { message: `Invalid role: ${lure}`, param: "messages[0].role" } }),
    (lure) => ({
      error: { message: `Unrecognized request argument supplied: ${lure}`, type: "invalid_request_error", param: null, code: null },
    }),
    (lure) => ({
      error: {
        code: 400,
        message: `Invalid JSON payload received. Unknown name "${lure}": Cannot find field.`,
        status: "INVALID_ARGUMENT",
      },
    }),
    (lure) => ({ detail: [{ type: "enum", loc: ["body", "messages", 0, "role"], msg: `Input should be 'user', not ${lure}` }] }),
    (lure) => ({ message: `[{'type': 'missing', 'msg': 'Field required', 'input': {'content': '${lure}'}}]`, code: 400 }),
  ];

  test("cools no channel down and teaches no ceiling", () => {
    for (const echo of echoes) {
      for (const lure of lures) {
        for (const status of [400, 422]) {
          expect(explain(refusal(status, echo(lure)))).toMatchObject({ blame: "client", scope: "request", ceiling: null });
        }
      }
    }
  });
});

describe("the wait", () => {
  const headers = { date: "Sun, 15 Nov 2026 12:00:00 GMT", "retry-after": "Sun, 15 Nov 2026 12:00:09 GMT" };

  test("is read against the answer's own clock, or the one that is handed in", () => {
    const { date, ...dateless } = headers;
    expect(explain(refusal(429, "", headers)).retryAfterMs).toBe(9_000);
    expect(explain(refusal(429, "", dateless)).retryAfterMs).toBeNull();
    expect(explain(refusal(429, "", dateless), Date.parse(date)).retryAfterMs).toBe(9_000);
  });

  test("is kept for an overload and for a limit, and never for a client's mistake", () => {
    expect(explain(refusal(503, "", headers)).retryAfterMs).toBe(9_000);
    expect(explain(refusal(400, "", headers)).retryAfterMs).toBeNull();
  });
});

describe("shapes of a body", () => {
  test.each([
    ["", "empty", ""],
    [" \n\t ", "empty", ""],
    ["null", "text", "null"],
    ["42", "text", "42"],
    ['"a string"', "text", "a string"],
    ["[]", "text", "[]"],
    ["{}", "json", ""],
    ['{"error":null}', "json", ""],
    ['{"error":{"message":{"nested":true}}}', "json", ""],
    ['{"errors":[{"code":1,"message":"first"}]}', "json", "first"],
    ['{"error":"Bad Request","message":"other"}', "json", "Bad Request"],
    ["max_tokens < 5 and > 3", "text", "max_tokens < 5 and > 3"],
    ["<h1>Bad\n gateway</h1><p>try  later", "markup", "Bad gateway try later"],
    ["<?xml version='1.0'?><Error><Code>Denied</Code></Error>", "markup", "Denied"],
    ["<p>open <b", "markup", "open"],
  ])("%s is %s", (text, form, message) => {
    expect(errorBody(text)).toMatchObject({ form: form as "json", message });
  });

  test("text that is no JSON is cut at five hundred characters, between words", () => {
    expect(errorBody("word ".repeat(1000)).message).toBe("word ".repeat(100));
    expect(errorBody(`<p>${"word ".repeat(1000)}`).message).toBe("word ".repeat(100));
  });

  test("an event is read although it is no stream", () => {
    const event = 'id: 1\nevent: error\ndata: {"code":"Throttling","message":"slower"}\n\n';
    expect(errorBody(event)).toMatchObject({ form: "json", code: "Throttling", message: "slower" });
    expect(errorBody('data: {"error":{"message":"first"}}')).toMatchObject({ form: "json", message: "first" });
  });

  test("what stands far down a page is not read", () => {
    expect(errorBody(`<p>early${"<b>".repeat(30_000)}late`).message).toBe("early");
  });

  test("text that is too long or too deep to parse is still text", () => {
    expect(errorBody(`{"error":{"message":"${"x ".repeat(50_000)}"}}`).form).toBe("text");
    expect(errorBody(`{"error":{"message":"m"},"deep":${"[".repeat(64)}${"]".repeat(64)}}`).form).toBe("text");
    expect(errorBody(`{"error":{"message":"m"},"deep":${"[".repeat(63)}${"]".repeat(63)}}`).form).toBe("json");
    expect(errorBody(`{"error":{"message":"${"[{".repeat(500)}"}}`).form).toBe("json");
  });
});

describe("whatever is sent", () => {
  const text = fc.oneof(
    anyText(),
    fc.json(),
    fc.anything().map((value) => JSON.stringify({ error: value }) ?? ""),
    fc
      .record({ message: fc.anything(), type: fc.anything(), code: fc.anything(), param: fc.anything(), details: fc.anything() })
      .map((error) => {
        try {
          return JSON.stringify({ error });
        } catch {
          return "";
        }
      }),
    fc.string().map((inside) => `<html>${inside}</html>`),
  );
  const status = fc.oneof(fc.integer({ min: 100, max: 599 }), fc.integer(), fc.double());
  const header = anyText();

  function isComplete(failure: Failure): void {
    expect(failure.publicMessage).not.toBe("");
    expect(failure.publicMessage.length).toBeLessThanOrEqual(1000);
    expect(failure.detail.length).toBeLessThanOrEqual(300);
    expect(failure.publicMessage + failure.detail).not.toMatch(/\p{Cc}/u);
    expect(failure.retryAfterMs === null || (failure.retryAfterMs >= 0 && failure.retryAfterMs <= 3_600_000)).toBe(true);
    expect(failure.kind === "ceiling").toBe(failure.ceiling !== null);
    expect(failure.ceiling === null || failure.ceiling >= 1).toBe(true);
  }

  test("a refusal has an explanation", () => {
    fc.assert(
      fc.property(status, text, header, (sent, body, value) => {
        isComplete(explain({ status: sent, header: () => value, body }));
      }),
      { numRuns: numRuns(250) },
    );
  }, 120_000);

  test("an error in-band has an explanation", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.anything(),
          fc.anything().map((error) => ({ error })),
        ),
        (error) => {
          isComplete(explainInBand(error));
        },
      ),
      { numRuns: 1_000 },
    );
  }, 120_000);

  test("an explanation depends on nothing but the answer", () => {
    fc.assert(
      fc.property(status, text, (sent, body) => {
        expect(explain(refusal(sent, body))).toEqual(explain(refusal(sent, body)));
      }),
    );
  });
});

describe("a secret in an answer", () => {
  const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const drawn = (alphabet: string, minLength: number, maxLength: number): fc.Arbitrary<string> =>
    fc.string({ unit: fc.constantFrom(...alphabet), minLength, maxLength });
  const secret = fc.oneof(
    drawn(`${alphanumeric}-_`, 6, 120).map((rest) => `sk-${rest}`),
    drawn("0123456789abcdef", 20, 64),
    drawn(alphanumeric, 19, 60).map((rest) => `${rest.slice(0, 9)}7${rest.slice(9)}`),
    drawn(alphanumeric, 16, 30).map((rest) => `org-${rest}`),
    drawn(alphanumeric, 3, 20).map((name) => `${name}@example.com`),
  );
  const padding = fc.oneof(
    drawn("ab ,.;", 0, 40),
    // Around the places where texts are cut.
    fc.integer({ min: 440, max: 510 }).map((length) => "ab ".repeat(length).slice(0, length)),
    fc.integer({ min: 230, max: 310 }).map((length) => "ab ".repeat(length).slice(0, length)),
    fc.integer({ min: 930, max: 1010 }).map((length) => "ab ".repeat(length).slice(0, length)),
    fc.integer({ min: 65_400, max: 65_540 }).map((length) => "ab ".repeat(length).slice(0, length)),
  );
  const shapes: readonly ((message: string, bare: string) => string)[] = [
    (message) => message,
    (message) => `<html><p>${message}</p></html>`,
    (message) => `{"error":"${message}`,
    (message) => JSON.stringify({ error: { message } }),
    (message, bare) => JSON.stringify({ error: { message, type: bare, code: bare, param: bare, status: bare } }),
    (message) => JSON.stringify({ error: message, code: "invalid-argument" }),
    (message) => JSON.stringify({ detail: message }),
    (message) => JSON.stringify({ detail: [{ loc: ["body", message], msg: message, type: message }] }),
    (message) => JSON.stringify([{ error: { code: 400, message, status: "INVALID_ARGUMENT" } }]),
    (message) =>
      JSON.stringify({ error: { message: "Provider returned error", metadata: { raw: JSON.stringify({ error: { message } }) } } }),
    (message) => JSON.stringify({ error: { message: "no", param: message } }),
  ];
  const quote = fc.constantFrom(" ", "'", '"', "`", ": ", "(", "=", "\n", "\u200b ", ",");

  /** Any eight characters of it would be too many, unless the answer says them without it as well. */
  function hasNone(failure: Failure, without: Failure, planted: string): void {
    const shown = JSON.stringify(failure);
    const known = JSON.stringify(without);
    for (let at = 0; at + 8 <= planted.length; at += 4) {
      const piece = planted.slice(at, at + 8);
      if (!known.includes(piece)) expect(shown).not.toContain(piece);
    }
  }

  test("is never shown, wherever it is", () => {
    const statuses = fc.constantFrom(200, 400, 401, 403, 404, 413, 429, 500);
    fc.assert(
      fc.property(secret, padding, quote, fc.constantFrom(...shapes), statuses, (planted, around, mark, shape, status) => {
        const body = (text: string): string => shape(`${around}${mark}${text}${mark === "(" ? ")" : mark} ${around}`, text);
        hasNone(explain(refusal(status, body(planted))), explain(refusal(status, body(""))), planted);
        hasNone(explainInBand(errorShaped(body(planted))), explainInBand(errorShaped(body(""))), planted);
      }),
      { numRuns: numRuns(250) },
    );
  }, 120_000);

  function errorShaped(body: string): unknown {
    try {
      return JSON.parse(body);
    } catch {
      return { error: body };
    }
  }

  test("is not cut in two with one half shown", () => {
    const planted = "7d".repeat(16);
    const hasHalf = (body: unknown): boolean => {
      const { publicMessage, detail } = explain(refusal(400, body));
      return (publicMessage + detail).includes("7d");
    };
    for (let length = 440; length <= 520; length++) {
      const around = "ab ".repeat(length).slice(0, length);
      expect({ length, hasHalf: hasHalf(`${around} ${planted}`) }).toEqual({ length, hasHalf: false });
    }
    for (let length = 8_140; length <= 8_200; length++) {
      const message = `${"1a".repeat(length / 2)} ${planted}`;
      expect({ length, hasHalf: hasHalf({ error: { message } }) }).toEqual({ length, hasHalf: false });
    }
  });

  test("is never shown after a word such as Bearer, however short it is", () => {
    fc.assert(
      fc.property(
        drawn(alphanumeric, 8, 19),
        fc.constantFrom("Bearer ", "bearer  ", "api_key=", "API key provided: ", "password: "),
        (planted, word) => {
          const { publicMessage, detail } = explain(refusal(400, { error: { message: `Refused ${word}${planted} as such` } }));
          expect(publicMessage + detail).not.toContain(planted);
        },
      ),
    );
  });
});

test("hostile text takes linear time", () => {
  const size = 2_000_000;
  const pieces = [
    "a",
    "aaaaaaaaaaaaaaaaaaa ",
    "a@",
    "@",
    "sk-",
    "bearer ",
    "api key: ",
    "org-",
    "'",
    "' '",
    '"',
    "<",
    "<script>",
    "<a ",
    ">",
    "[",
    "{",
    '{"error":',
    "maximum ",
    "max tokens maximum is ",
    "range [1, ",
    "at most ",
    "limit of ",
    "input_value",
    "'input'",
    "\n",
    "\ndata:",
    " ",
    "\u0000",
    "\ud800",
    "stream_options', '",
    "try again in ",
    "1,",
    "aB",
  ];
  for (const piece of pieces) {
    const long = piece.repeat(Math.ceil(size / piece.length));
    const fitting = JSON.stringify({
      error: { message: `max_tokens ${long.slice(0, 30_000)}`, code: long.slice(0, 3_000), param: `max_tokens ${long.slice(0, 1_000)}` },
    });
    for (const body of [long, `<${long}`, fitting]) {
      const tookMs = quickestMs(() => {
        explain(refusal(400, body));
        explainInBand({ error: { message: long, code: long, type: long } });
      });
      expect({ piece, isQuick: tookMs < slowed(50) }).toEqual({ piece, isQuick: true });
    }
  }
}, 120_000);

/** Of a few runs, because a machine may be busy with something else during any one of them. */
function quickestMs(run: () => void): number {
  const runs = [1, 2, 3].map(() => {
    const beganMs = performance.now();
    run();
    return performance.now() - beganMs;
  });
  return Math.min(...runs);
}
