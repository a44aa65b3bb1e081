// Needs: quiet. It mostly waits for upstreams that stall.
import { expect, test } from "bun:test";
import fc from "fast-check";
import { numRuns } from "../support/properties.ts";
import { Stage, type AskOptions, type Group } from "../support/stage.ts";

/**
 * Every fault with every other, in every number of channels, for every kind of client. What comes of a call is not asked
 * here, only that the universal invariants hold: one end, one line, the text of one attempt, nothing left open, nothing
 * told that is secret, and no more attempts than allowed.
 */
const stage = new Stage({
  config: {
    routing: { deadlines: { stream: "1200ms", whole: "1200ms" } },
    server: { early_headers: "120ms", keep_alive: "90ms", write_stall: "800ms" },
  },
});

const timeouts = { connect: "200ms", first_byte: "250ms", first_content: "250ms", idle: "150ms", progress: "300ms", total: "1500ms" };

/** Cases that run at the same time, and how many there are in all. */
const atOnce = 48;
const cases = numRuns(150);

const behaviours = [
  "ok",
  "silent",
  "close-before-headers",
  "rst-before-headers",
  "rst-mid-headers",
  "rst-mid-body",
  "fin-mid-body",
  "rst-before-content",
  "rst-after@1",
  "rst-after@last",
  "fin-chunked-after@1",
  "fin-chunked-after@4",
  "fin-close-delimited-after@1",
  "fin-close-delimited-after@last",
  "close-delimited",
  "close-on-reuse",
  "close-on-reuse@rst",
  "delay@120",
  "slow-headers@5",
  "slow-event@3",
  "slow-event@40",
  "hang-after-headers",
  "hang-after@1",
  "hang-after@last",
  "hang-after-finish",
  "heartbeat-forever@30",
  "heartbeat-after@2,30",
  "length-too-short",
  "length-too-short@garbage",
  "cl-and-te",
  "bad-chunk-size",
  "bad-chunk-size@3",
  "chunk-size-overflow@2",
  "huge-chunk-extension@100000",
  "garbage",
  "http09",
  "h2-preface",
  "tls-bytes",
  "huge-headers@70000",
  "many-headers@2000",
  "interim-100",
  "interim-103+interim-102",
  "unsolicited-101",
  "gzip",
  "br",
  "stacked-encoding@3",
  "unknown-encoding",
  "false-gzip",
  "gzip-bomb@2000000",
  "no-done",
  "done-without-finish",
  "done-only",
  "empty-stream",
  "role-then-end",
  "end-after@2",
  "finish@length",
  "finish-error",
  "crlf+bom",
  "cr+comments",
  "no-space+multi-line-data",
  "event-id-retry-fields",
  "no-final-blank-line",
  "one-packet",
  "byte-by-byte",
  "malformed-event@1",
  "big-event@300000",
  "invalid-utf8",
  "lone-surrogate",
  "nul",
  "u2028",
  "multi-byte",
  "error-in-200",
  "error-in-200@400",
  "html-200",
  "empty-200",
  "null-200",
  "204",
  "invalid-json",
  "empty-choices",
  "no-choices",
  "padded",
  "padded-wait@4,60",
  "sse-error-first",
  "sse-error-first@overloaded_error",
  "sse-error-after@2",
  "error-event-named@1",
  "error-event-flat",
  "sse-for-json",
  "json-for-sse",
  "content-type@none",
  "content-type@text/html",
  "utf-16",
  "absurd-usage",
  "absurd-usage@NaN",
  "usage-missing",
  "usage-twice",
  "status@400",
  "status@408",
  "delivered-then-closed@120",
  "status@413",
  "too-large-html",
  "recovering@3",
  "status@500",
  "status@503",
  "status-empty@404",
  "status-empty@599",
  "status-html@502",
  "redirect@307,http://127.0.0.1:9/",
  "rate-limit@retry-after=1",
  "retry-after-ms@100",
  "insufficient-quota",
  "context-length",
  "content-policy",
  "bad-key-400",
  "leak-key@401",
  "leak-key@500",
  "reject-stream-options",
].map((fault) => (fault === "ok" ? fault : `fault:${fault}`));

const clients: fc.Arbitrary<AskOptions> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.constant({ readBytesPerSecond: 60_000, body: { x_tokens: 300 } }) },
  { weight: 1, arbitrary: fc.constantFrom<AskOptions>({ abort: "after-request" }, { abort: "after-head" }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 500 }).map((afterMs) => ({ abort: { afterMs } })) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 2_000 }).map((afterBodyBytes) => ({ abort: { afterBodyBytes } })) },
);

const scripts = fc.record({
  faults: fc.array(fc.constantFrom(...behaviours), { minLength: 1, maxLength: 3 }),
  stream: fc.boolean(),
  client: clients,
});

/** A request whose kept connection may have gone stale is sent again without counting, once for each upstream. */
const attemptsMax = 3;
const demands = { attemptsMax: attemptsMax + 3 };

/** By how many channels they have: enough for all cases that run at once, in turn, so that most cases find a fresh one. */
const pools = ([1, 2, 3] as const).map((size) => Array.from({ length: atOnce }, () => stage.group({ size, channels: { timeouts } })));
const turns = [0, 0, 0];

function nextGroup(size: number): Group {
  const at = size - 1;
  const turn = turns[at]!;
  turns[at] = turn + 1;
  return pools[at]![turn % atOnce]!;
}

test(
  `whatever ${cases} upstreams and clients do together, the universal invariants hold`,
  async () => {
    let played = 0;
    const property = fc.asyncProperty(fc.array(scripts, { minLength: 1, maxLength: atOnce, size: "max" }), async (batch) => {
      played += batch.length;
      const groups = batch.map(({ faults }) => nextGroup(faults.length));
      await stage.playAll(
        groups,
        async (row, index) => {
          const { faults, stream, client } = batch[index]!;
          for (const [at, upstream] of row.upstreams.entries()) upstream.behaviour = faults[at]!;
          const reply = await row.ask({ stream, ...client });
          expect(row.path(reply).length).toBeLessThanOrEqual(attemptsMax + faults.length);
          // Whoever stayed to the end was given one: a status, and a body that is complete.
          if (client.abort === undefined)
            expect({ status: reply.status >= 200, clean: reply.response.endedCleanly }).toEqual({ status: true, clean: true });
        },
        demands,
      );
    });
    // Each run takes seconds: what failed is told at once, not made smaller first.
    await fc.assert(property, { numRuns: Math.max(1, Math.round(cases / (atOnce / 2))), endOnFailure: true });
    expect(played).toBeGreaterThan(cases / 3);
  },
  Math.max(120_000, cases * 500),
);
