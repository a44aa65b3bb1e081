// Needs: quiet. It mostly waits for upstreams that stall.
import { describe, expect } from "bun:test";
import { expectInterrupted, expectRefusal, expectWhole } from "../support/outcome.ts";
import { kinds, Stage, variants } from "../support/stage.ts";

const stage = new Stage();

interface Mistake {
  readonly what: string;
  readonly behaviour: string;
  /** What a client is told when nobody else is left. */
  readonly status: number;
  readonly code: string | null;
  /** Which upstreams are asked, with the fallback and alone. */
  readonly path: string;
  readonly pathAlone: string;
}

const understood = { status: 502, code: "upstream_invalid_response", path: "ab", pathAlone: "aaa" };

describe("a good status over something else", () => {
  const mistakes: readonly Mistake[] = [
    {
      what: "an error in place of the answer",
      behaviour: "fault:error-in-200@502",
      status: 502,
      code: "upstream_error",
      path: "aab",
      pathAlone: "aaa",
    },
    {
      what: "an error of an overloaded server",
      behaviour: "fault:error-in-200@503",
      status: 503,
      code: "upstream_unavailable",
      path: "aab",
      pathAlone: "aaa",
    },
    {
      what: "an error about our key",
      behaviour: "fault:error-in-200@401",
      status: 502,
      code: "upstream_auth_failed",
      path: "ab",
      pathAlone: "a",
    },
    {
      what: "an error about our balance",
      behaviour: "fault:error-in-200@402",
      status: 502,
      code: "upstream_auth_failed",
      path: "ab",
      pathAlone: "a",
    },
    { what: "a page of HTML", behaviour: "fault:html-200", ...understood },
    { what: "nothing", behaviour: "fault:empty-200", ...understood },
    { what: "null", behaviour: "fault:null-200", ...understood },
    { what: "a status that has no body", behaviour: "fault:204", ...understood },
    { what: "an answer without choices", behaviour: "fault:no-choices", ...understood },
    { what: "an answer with no choice", behaviour: "fault:empty-choices", ...understood },
    {
      what: "an answer that says it failed",
      behaviour: "fault:finish-error",
      status: 502,
      code: "upstream_error",
      path: "ab",
      pathAlone: "a",
    },
    { what: "an answer in UTF-16", behaviour: "fault:utf-16", ...understood },
  ];
  stage.rows(
    "F45: what is no answer is never passed on as one, whatever its status: another upstream is asked, or the client is told",
    mistakes.flatMap(({ what, ...mistake }) => variants.map((variant) => ({ ...variant, label: `${what}, ${variant.label}`, ...mistake }))),
    async (row, { behaviour, status, code, path, pathAlone, stream, alone }) => {
      row.a.behaviour = behaviour;
      const reply = await row.ask({ stream, alone });
      if (alone) expectRefusal(reply, status, code);
      else expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe(alone ? pathAlone : path);
    },
    { sharesFallback: true },
  );

  stage.rows(
    "F45: half an answer under a length that is true is never passed on as an answer",
    variants.filter(({ stream }) => !stream),
    async (row, { alone }) => {
      row.a.behaviour = "fault:invalid-json";
      const reply = await row.ask({ alone });
      if (alone) expectRefusal(reply, 502, "upstream_invalid_response");
      else expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe(alone ? "aaa" : "ab");
    },
  );

  stage.rows("F45: a limit that is told with a good status is a limit", variants, async (row, { stream, alone }) => {
    row.a.behaviour = "fault:error-in-200@429";
    const reply = await row.ask({ stream, alone });
    if (!alone) return expectWhole(row, reply, row.b);
    expectRefusal(reply, 429, "rate_limit_exceeded");
    expect(Number(reply.response.header("retry-after"))).toBeWithin(1, 61);
  });

  stage.rows(
    "F45: a mistake of the client that is reported with a good status is the client's to fix",
    variants,
    async (row, { stream, alone }) => {
      row.a.behaviour = "fault:error-in-200@400";
      const reply = await row.ask({ stream, alone });
      expectRefusal(reply, 400, null);
      expect(reply.error?.message).toBe("The provider returned an error.");
      expect(row.path(reply)).toBe("a");
      expect(row.coolings()).toEqual([]);
    },
  );

  stage.row("F45: blank space before a whole answer is no mistake", async (row) => {
    row.a.behaviour = "fault:padded";
    expectWhole(row, await row.ask(), row.a);
  });
});

describe("an error inside a stream", () => {
  const meanings = [
    { type: "overloaded_error", status: 503, code: "upstream_unavailable", path: "aab", pathAlone: "aaa" },
    { type: "server_error", status: 502, code: "upstream_error", path: "aab", pathAlone: "aaa" },
    { type: "api_error", status: 502, code: "upstream_error", path: "aab", pathAlone: "aaa" },
    { type: "timeout_error", status: 504, code: "upstream_timeout", path: "ab", pathAlone: "a" },
    { type: "authentication_error", status: 502, code: "upstream_auth_failed", path: "ab", pathAlone: "a" },
    { type: "billing_error", status: 502, code: "upstream_auth_failed", path: "ab", pathAlone: "a" },
    { type: "invalid_request_error", status: 400, code: null, path: "a", pathAlone: "a" },
  ] as const;
  const events = [
    { label: "unnamed", fault: (type: string) => `fault:sse-error-first@${type}` },
    { label: "named", fault: (type: string) => `fault:error-event-named@0,${type}` },
  ];

  stage.rows(
    "F46: an error as the first event means what its status would have meant",
    meanings.flatMap((meaning) =>
      events.flatMap(({ label, fault }) => [
        { ...meaning, label: `${meaning.type}, ${label}`, behaviour: fault(meaning.type), alone: false },
        { ...meaning, label: `${meaning.type}, ${label}, alone`, behaviour: fault(meaning.type), alone: true },
      ]),
    ),
    async (row, { behaviour, status, code, path, pathAlone, alone }) => {
      row.a.behaviour = behaviour;
      const reply = await row.ask({ stream: true, alone });
      if (alone || path === "a") expectRefusal(reply, status, code);
      else expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe(alone ? pathAlone : path);
    },
    { sharesFallback: true },
  );

  stage.row("F46: a limit as the first event sends the call elsewhere", async (row) => {
    row.a.behaviour = "fault:sse-error-first@rate_limit_error";
    const reply = await row.ask({ stream: true });
    expectWhole(row, reply, row.b);
    expect(row.path(reply)).toBe("ab");
    expect(await row.gateway.waitForLog((line) => row.coolings().includes(line))).toMatchObject({ error: "rate_limited" });
  });

  stage.rows(
    "F46: an error without an error key, but with its name, is an error",
    [
      { label: "with a fallback", alone: false },
      { label: "alone", alone: true },
    ],
    async (row, { alone }) => {
      row.a.behaviour = "fault:error-event-flat@0";
      const reply = await row.ask({ stream: true, alone });
      if (alone) expectRefusal(reply, 503, "upstream_unavailable");
      else expectWhole(row, reply, row.b);
    },
  );

  stage.rows(
    "F46: an error after content is told in-band, in our words, after exactly what came before it",
    [
      { label: "unnamed", fault: "sse-error-after" },
      { label: "named", fault: "error-event-named" },
      { label: "without an error key", fault: "error-event-flat" },
    ],
    async (row, { fault }) => {
      row.a.behaviour = `fault:${fault}@3`;
      const reply = await row.ask({ stream: true });
      expectInterrupted(reply, row.sent(reply, row.a));
      // What an upstream says about its own trouble may name accounts.
      expect(reply.response.text).not.toMatch(/while processing your request|Overloaded/);
      expect(row.path(reply)).toBe("a");
    },
  );
});

describe("an answer of the wrong kind", () => {
  stage.rows(
    "F47: events for a call that is not streamed, and a whole answer for one that is, are never passed on raw",
    [
      { label: "events for a whole answer", stream: false, alone: false, behaviour: "fault:sse-for-json" },
      { label: "events for a whole answer, alone", stream: false, alone: true, behaviour: "fault:sse-for-json" },
      { label: "a whole answer for a stream", stream: true, alone: false, behaviour: "fault:json-for-sse" },
      { label: "a whole answer for a stream, alone", stream: true, alone: true, behaviour: "fault:json-for-sse" },
    ],
    async (row, { stream, alone, behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await row.ask({ stream, alone });
      if (alone) return expectRefusal(reply, 502, "upstream_invalid_response");
      expectWhole(row, reply, row.b);
      expect(reply.response.header("content-type")).toStartWith(stream ? "text/event-stream" : "application/json");
    },
  );

  for (const type of ["none", "text/plain", "text/html", "application/octet-stream", "text/event-stream; charset=utf-16"]) {
    stage.rows(`F48: a sound answer under the content type ${type} is known by what it is`, kinds, async (row, { stream }) => {
      row.a.behaviour = `fault:content-type@${type}`;
      const reply = await row.ask({ stream });
      expectWhole(row, reply, row.a);
      expect(row.path(reply)).toBe("a");
      expect(reply.response.header("content-type")).toStartWith(stream ? "text/event-stream; charset=utf-8" : "application/json");
    });
  }

  stage.rows(
    "F48: a whole answer under the type of a stream, and a stream under the type of a whole answer, do not confuse anyone",
    kinds,
    async (row, { stream }) => {
      row.a.behaviour = `fault:content-type@${stream ? "application/json" : "text/event-stream"}`;
      const reply = await row.ask({ stream });
      // Events that claim to be JSON may be refused, but then somebody else answers.
      expectWhole(row, reply, row.path(reply).endsWith("a") ? row.a : row.b);
    },
  );
});

describe("usage that does not add up", () => {
  for (const figure of ["-1", "1e12", "1.5", "null", "string"]) {
    stage.rows(
      `F55: usage of ${figure} does no harm: the answer is delivered as it is, and nothing is booked`,
      kinds,
      async (row, { stream }) => {
        row.a.behaviour = `fault:absurd-usage@${figure}`;
        const reply = await row.ask({ stream, body: stream ? { stream_options: { include_usage: true } } : {} });
        expectWhole(row, reply, row.a);
        expect(reply.response.text).toContain(row.a.ledger.chats[0]?.usageSent ?? "nothing");
        expect(await row.line(reply)).toMatchObject({ state: "complete", prompt_tokens: null, completion_tokens: null });
      },
    );
  }

  stage.row("F55: a whole answer whose usage is not JSON is no answer", async (row) => {
    row.a.behaviour = "fault:absurd-usage@NaN";
    const reply = await row.ask();
    expectWhole(row, reply, row.b);
    expect(row.path(reply)).toBe("ab");
  });

  stage.row("F55: an event of usage that is not JSON is left out of the stream, which is whole without it", async (row) => {
    row.a.behaviour = "fault:absurd-usage@NaN";
    const reply = await row.ask({ stream: true, body: { stream_options: { include_usage: true } } });
    expectWhole(row, reply, row.a);
    expect(reply.usage).toBeNull();
    expect(await row.line(reply)).toMatchObject({ skipped_events: 1, completion_tokens: null });
  });

  for (const { what, behaviour } of [
    { what: "after the finish", behaviour: "ok" },
    { what: "with the finish", behaviour: "fault:usage-on-finish-chunk" },
    { what: "twice, the second time right", behaviour: "fault:usage-twice" },
  ]) {
    stage.rows(
      `F56: usage that comes ${what} is booked once`,
      [
        { label: "asked for", asked: true },
        { label: "not asked for", asked: false },
      ],
      async (row, { asked }) => {
        row.a.behaviour = behaviour;
        const reply = await row.ask({ stream: true, body: asked ? { stream_options: { include_usage: true } } : {} });
        expectWhole(row, reply, row.a);
        expect(await row.line(reply)).toMatchObject({ completion_tokens: 5 });
        // What we ask for on our own account stays with us.
        const usageEvents = reply.events.filter((data) => data.includes('"choices":[]'));
        expect(usageEvents.length).toBe(asked && behaviour !== "fault:usage-on-finish-chunk" ? 1 : 0);
      },
    );
  }

  stage.rows("F56: usage that never comes is unknown, and not zero", kinds, async (row, { stream }) => {
    row.a.behaviour = "fault:usage-missing";
    const reply = await row.ask({ stream });
    expectWhole(row, reply, row.a);
    const line = await row.line(reply);
    expect([line["prompt_tokens"], line["completion_tokens"]]).not.toContain(0);
  });
});
