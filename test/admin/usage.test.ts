// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { csvCell, csvOf, type CsvValue } from "../../src/usage/csv.ts";
import { parsePastMoment } from "../../src/usage/time-text.ts";
import { readUsageColumns, usageFigures, usageHeadings } from "../../src/usage/usage-view.ts";
import type { UsageRow } from "../../src/usage/usage-row.ts";
import { codeOf, startAdmin, tester, type AdminWorld, type Called, type ErrorBody, type StartOptions } from "../support/admin.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { newKey } from "../support/new-key.ts";
import { anyText } from "../support/properties.ts";

const dayMs = 86_400_000;

async function rig(options: StartOptions = {}): Promise<{ readonly world: AdminWorld; readonly look: (path: string) => Promise<Called> }> {
  const world = await startAdmin(options);
  const viewer = await world.token("viewer");
  return { world, look: (path) => world.call("GET", `/admin/api${path}`, { headers: viewer }) };
}

type Row = Readonly<Record<string, string | number | null>>;
const rowsOf = (called: Called): readonly Row[] => (called.json as { readonly rows: readonly Row[] }).rows;

describe("usage", () => {
  test("is summed by the columns that are asked for, with the names of keys", async () => {
    const { world, look } = await rig({ services: { fileKeys: () => [{ ...newKey, id: "file:ci", name: "ci" }] } });
    await world.storage.keys.create("key-1", { ...newKey, name: "app" }, { digest: "d".repeat(64), last4: "abcd" }, tester);
    const at = (day: number, hour: number): number => Date.UTC(2026, 0, day, hour);
    await world.receipts(
      sampleReceipt({ startedMs: at(1, 3), estimated: true }),
      sampleReceipt({ startedMs: at(1, 4), state: "failed", billedNanos: null }),
      sampleReceipt({ startedMs: at(2, 3), keyId: "file:ci", channel: null, costUncertain: true }),
      sampleReceipt({ startedMs: at(2, 3), keyId: "gone", model: "model-2", operation: "speech" }),
    );
    const usual = {
      prompt_tokens: 10,
      completion_tokens: 20,
      cached_tokens: 2,
      reasoning_tokens: 5,
      audio_seconds: 0,
      characters: 0,
      estimated: 0,
      uncertain: 0,
      failed: 0,
      unpriced: 0,
    };
    expect(rowsOf(await look("/usage?by=key,day"))).toEqual([
      { key: "file:ci", key_name: "ci", day: "2026-01-02", calls: 1, ...usual, cost_usd: 0.000001, uncertain: 1 },
      { key: "gone", key_name: null, day: "2026-01-02", calls: 1, ...usual, cost_usd: 0.000001 },
      {
        key: "key-1",
        key_name: "app",
        day: "2026-01-01",
        calls: 2,
        ...usual,
        prompt_tokens: 20,
        completion_tokens: 40,
        cached_tokens: 4,
        reasoning_tokens: 10,
        cost_usd: 0.000001,
        estimated: 1,
        failed: 1,
        unpriced: 1,
      },
    ]);
    expect(rowsOf(await look("/usage")).map(({ calls }) => calls)).toEqual([4]);
    expect(rowsOf(await look("/usage?key=app")).map(({ calls }) => calls)).toEqual([2]);
    expect(rowsOf(await look("/usage?key=ci&by=channel")).map(({ channel, calls }) => [channel, calls])).toEqual([[null, 1]]);
    expect(rowsOf(await look("/usage?key=gone&by=operation")).map(({ operation }) => operation)).toEqual(["speech"]);
    expect(rowsOf(await look("/usage?by=model&model=model-2&channel=channel-1")).map(({ model }) => model)).toEqual(["model-2"]);
    expect(rowsOf(await look("/usage?by=hour,hour&since=2026-01-01T04:00:00Z&until=2026-01-02")).map(({ hour }) => hour)).toEqual([
      "2026-01-01T04:00Z",
    ]);
    expect(rowsOf(await look("/usage?by=key&key=nobody"))).toEqual([]);
  });

  test("has an unknown cost if no price is known, not a cost of zero", async () => {
    const { world, look } = await rig();
    await world.receipts(
      sampleReceipt({ model: "mixed", billedNanos: 2_000 }),
      sampleReceipt({ model: "mixed", billedNanos: null }),
      sampleReceipt({ model: "nameless", billedNanos: null }),
      sampleReceipt({ model: "nameless", billedNanos: null }),
      sampleReceipt({ model: "own", billedNanos: 0 }),
    );
    const costs = (await look("/usage?by=model").then(rowsOf)).map(({ model, cost_usd, unpriced }) => [model, cost_usd, unpriced]);
    expect(costs).toEqual([
      ["mixed", 0.000002, 1],
      ["nameless", null, 2],
      ["own", 0, 0],
    ]);
    const cells = (await look("/usage?by=model&format=csv")).text.split("\r\n").map((line) => line.split(","));
    const column = cells[0]!.indexOf("cost_usd");
    expect(cells.slice(1, 4).map((line) => line[column])).toEqual(["0.000002", "", "0"]);
    expect(rowsOf(await look("/usage?model=nobody"))).toMatchObject([{ calls: 0, cost_usd: 0 }]);
  });

  test("can be filtered by how long ago it was", async () => {
    const { world, look } = await rig();
    const nowMs = Date.now();
    await world.receipts(...[1, 20, 40].map((days) => sampleReceipt({ startedMs: nowMs - days * dayMs })));
    for (const [since, calls] of [
      ["7d", 1],
      ["48h", 1],
      ["30d", 2],
      ["52w", 3],
    ] as const) {
      expect([since, rowsOf(await look(`/usage?since=${since}`))[0]?.["calls"]]).toEqual([since, calls]);
    }
  });

  test("refuses invalid parameters by name", async () => {
    const { look } = await rig();
    for (const [query, param] of [
      ["by=key,colour", "by"],
      ["by=KEY", "by"],
      ["since=yesterday", "since"],
      ["since=2026-02-30", "since"],
      ["until=7", "until"],
      ["format=xml", "format"],
      ["key=", "key"],
      ["model=%00", "model"],
      [`by=${"key,".repeat(50)}`, "by"],
    ] as const) {
      const called = await look(`/usage?${query}`);
      expect([query, called.status, (called.json as ErrorBody).error.param]).toEqual([query, 400, param]);
    }
  });

  test("is refused if the answer has too many rows", async () => {
    const row: UsageRow = {
      group: { model: "m" },
      calls: 1,
      failedCalls: 0,
      promptTokens: 0,
      cachedTokens: 0,
      completionTokens: 0,
      reasoningTokens: 0,
      audioSeconds: 0,
      characters: 0,
      nanos: 0,
      unpricedCalls: 0,
      uncertainCalls: 0,
      estimatedCalls: 0,
    };
    const count = { rows: 20_000 };
    const { look } = await rig({
      storage: (real) => ({ ...real, receipts: { ...real.receipts, usage: async () => Array.from({ length: count.rows }, () => row) } }),
    });
    expect(rowsOf(await look("/usage?by=model")).length).toBe(20_000);
    count.rows += 1;
    expect(codeOf(await look("/usage?by=model"))).toBe("answer_too_large");
  });

  test("S47: comes as a table for spreadsheets, in which no name is a formula", async () => {
    const { world, look } = await rig();
    await world.storage.keys.create(
      "key-1",
      { ...newKey, name: '=HYPERLINK("http://evil","x")' },
      { digest: "d".repeat(64), last4: "abcd" },
      tester,
    );
    await world.receipts(sampleReceipt({ model: "@SUM(1,2)", channel: "+cmd|' /C calc'!A0" }));
    const called = await look("/usage?by=key,model,channel&format=csv");
    expect(called.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(called.headers.get("content-disposition")).toBe('attachment; filename="usage.csv"');
    expect(called.text).toBe(
      [
        "key,key_name,model,channel,calls,prompt_tokens,completion_tokens,cached_tokens,reasoning_tokens,audio_seconds,characters,cost_usd,estimated,uncertain,failed,unpriced",
        `key-1,"'=HYPERLINK(""http://evil"",""x"")","'@SUM(1,2)",'+cmd|' /C calc'!A0,1,10,20,2,5,0,0,0.000001,0,0,0,0`,
        "",
      ].join("\r\n"),
    );
    const empty = await look("/usage?by=key&key=nobody&format=csv");
    expect(empty.text).toBe(`${usageHeadings(["key"]).join(",")}\r\n`);
  });
});

describe("receipts", () => {
  test("come newest first, by pages, and filtered", async () => {
    const { world, look } = await rig();
    await world.storage.keys.create("key-1", { ...newKey, name: "app" }, { digest: "d".repeat(64), last4: "abcd" }, tester);
    const nowMs = Date.now();
    const all = Array.from({ length: 7 }, (_, at) =>
      sampleReceipt({
        id: Bun.randomUUIDv7("hex", nowMs - (7 - at) * 1000),
        startedMs: nowMs - (7 - at) * 1000,
        keyId: at % 2 === 0 ? "key-1" : "other",
        state: at === 3 ? "failed" : "complete",
        model: at === 4 ? "model-2" : "model-1",
        status: at === 3 ? 503 : 200,
        tookMs: at * 1_000,
        billedNanos: at === 5 ? null : at * 100_000_000,
      }),
    );
    await world.receipts(...all);
    const list = async (query: string) =>
      (await look(`/receipts?${query}`)).json as { readonly receipts: readonly Record<string, unknown>[]; readonly next: string | null };
    const seen: unknown[] = [];
    let next: string | null = "";
    for (let page = 0; page < 9 && next !== null; page++) {
      const found = await list(`limit=3${next === "" ? "" : `&before=${next}`}`);
      seen.push(...found.receipts.map(({ id }) => id));
      next = found.next;
    }
    expect(seen).toEqual(all.map(({ id }) => id).toReversed());
    expect((await list("key=app")).receipts.map(({ key_name }) => key_name)).toEqual(["app", "app", "app", "app"]);
    expect((await list("state=failed")).receipts.length).toBe(1);
    expect((await list("model=model-2&since=1h")).receipts.length).toBe(1);
    expect((await list("until=1d")).receipts.length).toBe(0);
    expect((await list("channel=nobody")).receipts).toEqual([]);
    for (const [query, count] of [
      ["status=503", 1],
      ["status=5xx", 1],
      ["status=2xx", 6],
      ["min_cost_usd=0.2", 4],
      ["min_cost_usd=0.2&max_cost_usd=0.30", 2],
      ["max_cost_usd=0", 1],
      ["min_took_ms=5000", 2],
      ["key=app&min_took_ms=4000&status=200", 2],
    ] as const) {
      expect([query, (await list(query)).receipts.length]).toEqual([query, count]);
    }
    for (const query of [
      "status=6xx",
      "status=20",
      "min_cost_usd=-1",
      "min_cost_usd=cheap",
      "min_took_ms=1.5",
      "limit=201",
      "limit=1e9",
      "state=happy",
      "before=",
      "since=soon",
      "order=cost",
    ]) {
      expect([query, (await look(`/receipts?${query}`)).status]).toEqual([query, 400]);
    }
  });
});

describe("a table", () => {
  /** As RFC 4180 says it: cells, each with what follows it. */
  function parsed(text: string): readonly (readonly string[])[] {
    const rows: string[][] = [[]];
    const cells = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n)/gy;
    let end = 0;
    for (const [whole, cell = "", after] of text.matchAll(cells)) {
      rows.at(-1)!.push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
      if (after === "\r\n") rows.push([]);
      end += whole.length;
    }
    expect(end).toBe(text.length);
    return rows.slice(0, -1);
  }

  const nasty = fc.oneof(
    anyText(),
    fc.string({ unit: fc.constantFrom("=", "+", "-", "@", "\t", "\r", "\n", '"', ",", "'", " ", "a", "１", "＝") }),
  );

  test("keeps every text, with a quote before what would be a formula", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ a: nasty, b: fc.option(fc.oneof(nasty, fc.double({ noNaN: true }))) }), { minLength: 1 }),
        (rows) => {
          const [head, ...body] = parsed(csvOf(["a", "b"], rows as readonly Readonly<Record<string, CsvValue>>[]));
          expect(head).toEqual(["a", "b"]);
          for (const [at, row] of rows.entries()) {
            for (const [cell, value] of [row.a, row.b].entries()) {
              const found = body[at]![cell]!;
              if (typeof value === "string") {
                expect(found === value || found === `'${value}`).toBe(true);
                expect(/^[=+\-@\t\r]/.test(found)).toBe(false);
              } else expect(found).toBe(value === null ? "" : String(value));
            }
          }
        },
      ),
    );
  });

  test("leaves numbers alone, also those below zero", () => {
    expect([csvCell(-1.5), csvCell("-1.5"), csvCell("plain"), csvCell(null), csvCell(true)]).toEqual([
      "-1.5",
      "'-1.5",
      "plain",
      "",
      "true",
    ]);
  });
});

describe("the parameters of a query", () => {
  test("for moments are days, times with a zone, and spans", () => {
    const nowMs = Date.UTC(2026, 5, 15, 12);
    const cases: readonly (readonly [string, number | null])[] = [
      ["2026-01-31", Date.UTC(2026, 0, 31)],
      ["2026-01-31T10:00Z", Date.UTC(2026, 0, 31, 10)],
      ["2026-01-31T10:00:30.5+02:00", Date.UTC(2026, 0, 31, 8, 0, 30, 500)],
      ["24h", nowMs - dayMs],
      ["30m", nowMs - 1_800_000],
      ["7d", nowMs - 7 * dayMs],
      ["2w", nowMs - 14 * dayMs],
      ["2026-02-30", null],
      ["2026-01-31T10:00", null],
      ["2026-01-31T25:00Z", null],
      ["2026-1-1", null],
      ["7 days", null],
      ["9999999d", null],
      ["", null],
      ["-7d", null],
    ];
    for (const [text, ms] of cases) expect([text, parsePastMoment(text, nowMs)]).toEqual([text, ms]);
  });

  test("for columns are known ones, each once", () => {
    expect(readUsageColumns(" key, day,key,")).toEqual(["key", "day"]);
    expect(readUsageColumns("")).toEqual([]);
    expect(readUsageColumns("key,__proto__")).toEqual({ unknown: "__proto__" });
    expect(usageHeadings(["day"])).toEqual(["day", ...usageFigures]);
  });
});

describe("outcomes", () => {
  const plain = sampleReceipt().attempts[0]!;
  const failed = {
    ...plain,
    outcome: "failed",
    status: 503,
    error: "overloaded",
    nanos: 250,
    promptTokens: null,
    completionTokens: null,
  } as const;
  const broken = { ...plain, outcome: "failed", error: "interrupted", completionTokens: 3, nanos: 100 } as const;
  const second = { ...plain, channel: "channel-2", nanos: 1_000 };
  const nowMs = Date.UTC(2026, 3, 20, 12, 30);

  async function filled() {
    const opened = await rig({ services: { wallMs: () => nowMs } });
    const at = { startedMs: nowMs - 600_000 };
    await opened.world.receipts(
      sampleReceipt({ ...at, cacheSavedNanos: 4_000_000 }),
      sampleReceipt({ ...at, requestId: "cut", finish: "length", tookMs: 900 }),
      sampleReceipt({ ...at, requestId: "over", attempts: [failed, second] }),
      sampleReceipt({ ...at, requestId: "rescued", attempts: [broken, second] }),
      sampleReceipt({
        ...at,
        requestId: "no",
        model: "model-2",
        keyId: "key-2",
        state: "failed",
        error: "content_policy",
        attempts: [failed],
      }),
      sampleReceipt({ ...at, startedMs: nowMs - 40 * dayMs, attempts: [failed, second] }),
    );
    return opened;
  }

  test("count what failover and rescue saved and cost, what caches saved, and what was cut or refused", async () => {
    const { look } = await filled();
    const { json } = await look("/outcomes?since=24h");
    expect(json).toEqual({
      counted_from: "2026-03-11T00:00:00.000Z",
      rows: [
        {
          calls: 5,
          failed: 1,
          truncated: 1,
          refused: 1,
          interrupted: 0,
          abandoned: 0,
          unknown: 0,
          failed_over: 1,
          retried: 0,
          rescued: 1,
          rescue_failed: 0,
          hedges: 0,
          hedges_won: 0,
          extra_attempts: 2,
          extra_tokens: 30,
          failover_usd: 0.00000025,
          hedge_usd: 0,
          rescue_usd: 0.000001,
          prompt_tokens: 50,
          cached_tokens: 10,
          completion_tokens: 100,
          cost_usd: 0.000005,
          cache_saved_usd: 0.004,
          unpriced: 0,
        },
      ],
    });
    expect(rowsOf(await look("/outcomes?since=90d&by=model")).map((row) => [row["model"], row["failed_over"], row["refused"]])).toEqual([
      ["model-1", 2, 0],
      ["model-2", 0, 1],
    ]);
    expect(rowsOf(await look("/outcomes?by=key&key=key-2"))).toMatchObject([{ key: "key-2", calls: 1, refused: 1 }]);
    const { json: wrong } = await look("/outcomes?by=colour");
    expect((wrong as ErrorBody).error.param).toBe("by");
  });

  test("lead to the calls that they count", async () => {
    const { look } = await filled();
    const found = async (outcome: string) => {
      const { json } = await look(`/receipts?since=24h&outcome=${outcome}`);
      return (json as { receipts: { request_id: string; outcomes: string[] }[] }).receipts.map((one) => [one.request_id, one.outcomes]);
    };
    expect(await found("truncated")).toEqual([["cut", ["truncated"]]]);
    expect(await found("refused")).toEqual([["no", ["refused"]]]);
    expect(await found("rescued")).toEqual([["rescued", ["rescued"]]]);
    expect(await found("failed_over")).toEqual([["over", ["failed_over"]]]);
    expect(await found("hedged")).toEqual([]);
    expect((await look("/receipts?outcome=strange")).status).toBe(400);
  });

  test("of two models stand side by side, with their times and what an answer costs", async () => {
    const { look } = await filled();
    const { json } = await look("/comparison?model=model-1&other=model-2&since=24h");
    expect(json).toMatchObject({
      models: [
        {
          model: "model-1",
          calls: 4,
          failed: 0,
          truncated: 1,
          cost_per_call_usd: 0.000001,
          cost_per_1k_output_usd: 0.00005,
          first_content: { calls: 4 },
          took: { calls: 4 },
        },
        { model: "model-2", calls: 1, failed: 1, refused: 1, first_content: { calls: 1 }, took: null },
      ],
    });
    const { models } = json as { readonly models: readonly { readonly took: { readonly p50_ms: number; readonly p95_ms: number } }[] };
    expect(models[0]!.took.p50_ms).toBeLessThanOrEqual(models[0]!.took.p95_ms);
    expect((await look("/comparison?model=model-1&other=unheard-of")).json).toMatchObject({ models: [{}, { calls: 0, took: null }] });
    expect((await look("/comparison?model=model-1")).status).toBe(400);
  });

  test("do not hide from an invoice what attempts cost that did not answer", async () => {
    const { look } = await filled();
    const { json } = await look("/invoice?month=2026-04");
    expect(json).toMatchObject({
      from_at: "2026-04-01T00:00:00.000Z",
      to_at: "2026-05-01T00:00:00.000Z",
      rows: [
        { channel: "channel-1", model: "upstream-model-1", attempts: 5, answered: 2, prompt_tokens: 30, cost_usd: 0.0000026 },
        { channel: "channel-2", model: "upstream-model-1", attempts: 2, answered: 2, prompt_tokens: 20, cost_usd: 0.000002 },
      ],
    });
    expect((await look("/invoice?month=2026-02")).json).toMatchObject({ rows: [] });
    for (const month of ["2026-13", "2026", "April"]) expect((await look(`/invoice?month=${month}`)).status).toBe(400);
  });
});

describe("the overview", () => {
  const spans = ["1h", "24h", "7d", "30d", "90d"] as const;

  test("tells times to first content over every span from the sums of the store, so that a restart loses none", async () => {
    const { world, look } = await rig();
    const nowMs = Date.now();
    const started = (hoursAgo: number, firstContentMs: number) =>
      world.receipts(sampleReceipt({ id: Bun.randomUUIDv7(), startedMs: nowMs - hoursAgo * 3_600_000, firstContentMs, stream: true }));
    await started(0, 100);
    await started(5, 1_000);
    await started(3 * 24, 5_000);
    await started(20 * 24, 10_000);
    await started(80 * 24, 20_000);
    const streams: number[] = [];
    for (const span of spans) {
      const { json } = await look(`/overview?span=${span}`);
      const { first_content: times } = json as { readonly first_content: { readonly streams: number; readonly p99_ms: number } };
      streams.push(times.streams);
      expect(times.p99_ms).toBeLessThanOrEqual(20_000);
    }
    expect(streams).toEqual([1, 2, 3, 4, 5]);
    expect((await look("/overview?span=7d")).json).toMatchObject({ first_content_before: null });
    expect((await look("/overview?span=30d")).json).toMatchObject({ first_content_before: null });
    await started(40 * 24, 100);
    expect((await look("/overview?span=30d")).json).toMatchObject({ first_content_before: { streams: 1 } });
  });

  test("tells those of the last hour by the minute once this gateway has counted for so long", async () => {
    const nowMs = Date.now();
    const counted = { p50_ms: 1, p95_ms: 2, p99_ms: 3, streams: 7 };
    const traffic = { since: () => [], state: () => ({ inFlight: 0, sinceMs: nowMs - 3_600_001 }), firstContent: () => counted };
    const { look } = await rig({ services: { traffic } });
    expect((await look("/overview?span=1h")).json).toMatchObject({ first_content: counted });
    expect((await look("/overview?span=24h")).json).toMatchObject({ first_content: null });
  });
});
