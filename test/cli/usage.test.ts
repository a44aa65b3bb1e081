// Needs: servers. It uses a real PostgreSQL or Redis.
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { openJournal, type Journal } from "../../src/store/journal/journal.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { CommandLine } from "../support/command-line.ts";
import { engines, freshPostgresUrl } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { sampleOpening, sampleReceipt } from "../support/journal-receipts.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

type Row = Readonly<Record<string, string | number | null>>;

const open: Journal[] = [];
afterEach(async () => {
  for (const journal of open.splice(0)) await journal.stop();
});

/** As a gateway that lives until the journal is stopped, and drains nothing. */
function journalOf(cli: CommandLine): Journal {
  const journal = openJournal({ folder: join(cli.dataDir, "journal"), holder: "holder", onError: () => {} });
  open.push(journal);
  return journal;
}

/** Receipts that a gateway wrote and did not live to bring into the store. */
async function left(cli: CommandLine, receipts: readonly Partial<Receipt>[]): Promise<void> {
  const journal = journalOf(cli);
  for (const receipt of receipts) await journal.close(sampleReceipt(receipt));
  await journal.stop();
}

const day = (date: number, hour = 12): number => Date.UTC(2026, 0, date, hour);

describe("receipts in the journal", () => {
  test("that a dead gateway left behind are counted, once", async () => {
    const cli = new CommandLine();
    await left(
      cli,
      Array.from({ length: 700 }, () => ({ billedNanos: 1 })),
    );
    const { code, out, err } = await cli.run(["usage", "--json"]);
    expect([code, err.includes("note: there was no store")]).toEqual([0, true]);
    expect(JSON.parse(out)).toMatchObject([{ calls: 700, cost_usd: 0.0000007 }]);
    expect(await cli.json<Row[]>("usage")).toMatchObject([{ calls: 700 }]);
  });

  test("are explained by their request id, and an id that no call has is an error", async () => {
    const cli = new CommandLine();
    await left(cli, [{ id: "0197a000-0000-7000-8000-000000000001", requestId: "mine" }]);
    const { code, out } = await cli.run(["explain", "mine"]);
    expect([code, out]).toEqual([0, expect.stringContaining("channel-1 answered at once.")]);
    expect(await cli.json<Row>("explain", "mine")).toMatchObject({ request_id: "mine", channel: "channel-1" });
    const other = await cli.run(["explain", "other"]);
    expect([other.code, other.err]).toEqual([1, expect.stringContaining('No call has the id "other"')]);
  });

  test("are listed by what they cost, how long they took and how they ended", async () => {
    const cli = new CommandLine();
    await left(cli, [
      { requestId: "dear", billedNanos: 2_000_000_000, tookMs: 100 },
      { requestId: "slow", billedNanos: 1_000, tookMs: 60_000 },
      { requestId: "broken", state: "failed", status: 503, billedNanos: null },
    ]);
    const found = async (...options: readonly string[]): Promise<readonly string[]> =>
      (await cli.json<Row[]>("requests", ...options)).map((row) => String(row["request_id"])).toSorted();
    expect(await found()).toEqual(["broken", "dear", "slow"]);
    expect(await found("--min-cost", "1.5")).toEqual(["dear"]);
    expect(await found("--max-cost", "1", "--min-seconds", "60")).toEqual(["slow"]);
    expect([await found("--status", "5xx"), await found("--state", "failed")]).toEqual([["broken"], ["broken"]]);
    expect((await cli.run(["requests", "--model", "model-1", "--limit", "1"])).out.trim().split("\n").length).toBe(2);
    expect((await cli.run(["requests", "--status", "600"])).code).toBe(64);
  });

  test("of a key or a group that does not exist are looked for under its id, and that is said", async () => {
    const cli = new CommandLine();
    await left(cli, [{ requestId: "old", keyId: "removed" }]);
    for (const command of ["requests", "usage"]) {
      const removed = await cli.here([command, "--key", "removed", "--json"]);
      expect([removed.code, (JSON.parse(removed.out) as unknown[]).length]).toEqual([0, 1]);
      expect(removed.err).toContain('note: there is no key "removed" (see sluice keys list)');
      expect((await cli.here([command, "--group", "gone"])).err).toContain('note: there is no group "gone" (see sluice groups list)');
    }
  });

  test("that was under way when its gateway died is counted with what was reserved for it", async () => {
    const cli = new CommandLine();
    const journal = journalOf(cli);
    await journal.open(sampleOpening({ nanos: 700 }));
    await journal.stop();
    expect(await cli.json<Row[]>("usage")).toMatchObject([{ calls: 1, cost_usd: 0.0000007, uncertain: 1, estimated: 1 }]);
  });

  test("count as spent of their key, in the period of its budget, where a program asks for it", async () => {
    const cli = new CommandLine();
    const paid = await cli.json<{ readonly id: string }>("keys", "create", "paid", "--budget", "5", "--budget-period", "day");
    const free = await cli.json<{ readonly id: string }>("keys", "create", "free");
    const long = { startedMs: Date.now() - 3 * 86_400_000, billedNanos: 1_000_000_000 };
    const now = { startedMs: Date.now(), billedNanos: 250_000_000 };
    await left(
      cli,
      [paid, free].flatMap(({ id }) => [
        { keyId: id, ...long },
        { keyId: id, ...now },
      ]),
    );
    await cli.json("usage");
    expect(await cli.json("keys", "show", "paid")).toMatchObject({ spent: 0.25, limits: { budget_usd: 5 } });
    expect(await cli.json("keys", "show", "free")).toMatchObject({ spent: 1.25 });
  });

  test("of a running gateway that cannot store them are reported as missing", async () => {
    const cli = new CommandLine();
    const journal = journalOf(cli);
    await journal.close(sampleReceipt());
    await journal.open(sampleOpening());
    const { code, out, err } = await cli.run(["usage", "--json"]);
    expect([code, JSON.parse(out)]).toEqual([0, [expect.objectContaining({ calls: 0 })]]);
    expect(err).toMatch(/note: \d+ bytes of receipts are not in the store yet/);
  });

  test("of a call that has only begun are not reported as missing", async () => {
    const cli = new CommandLine();
    const journal = journalOf(cli);
    await journal.open(sampleOpening());
    const { out, err } = await cli.run(["usage", "--json"]);
    expect([JSON.parse(out), err.includes("of receipts")]).toEqual([[expect.objectContaining({ calls: 0 })], false]);
  });

  test("of a gateway that runs are all there", async () => {
    const token = "0123456789abcdefghij";
    const upstream = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () =>
        Response.json({
          id: "answer",
          object: "chat.completion",
          created: 1,
          model: "m",
          choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }],
          usage: { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 },
        }),
    });
    try {
      await using gateway = await startGateway({
        config: {
          keys: [{ name: "own", key: token }],
          channels: [{ name: "up", base_url: `http://127.0.0.1:${upstream.port}/v1`, models: ["m"] }],
          prices: [{ model: "m", input: 1, output: 2 }],
        },
      });
      const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] });
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      for (let at = 0; at < 3; at++) {
        const response = await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body });
        expect([response.status, await response.json()]).toEqual([200, expect.anything()]);
      }
      const cli = new CommandLine();
      const { out } = await cli.run(["usage", "--json", "--by", "key,model,channel", "--config", join(gateway.directory, "sluice.yaml")]);
      expect(JSON.parse(out)).toEqual([
        expect.objectContaining({
          key: "file:own",
          key_name: "own",
          model: "m",
          channel: "up",
          calls: 3,
          prompt_tokens: 3000,
          completion_tokens: 1500,
          cost_usd: 0.006,
          estimated: 0,
          failed: 0,
          unpriced: 0,
        }),
      ]);
    } finally {
      await upstream.stop(true);
    }
  });
});

describe("what was used", () => {
  async function world(config: Readonly<Record<string, unknown>> = {}): Promise<{ readonly cli: CommandLine; readonly keyId: string }> {
    const cli = new CommandLine(config);
    const { id: keyId } = await cli.json<{ id: string }>("keys", "create", "laptop");
    await left(cli, [
      { keyId, model: "a", startedMs: day(1), billedNanos: 1_000_000_001, finish: "length" },
      { keyId, model: "a", startedMs: day(2, 0), billedNanos: null },
      { keyId, model: "b", startedMs: day(2, 23), billedNanos: 1, estimated: true, channel: null, status: 500, state: "failed" },
      { keyId: "file:gone", model: "a", startedMs: day(3), billedNanos: 3, operation: "transcription" },
    ]);
    return { cli, keyId };
  }

  test("is grouped, in order, with every figure", async () => {
    const { cli, keyId } = await world();
    const rows = await cli.json<Row[]>("usage", "--by", "key,day", "--by", "model");
    const groups = rows.map(({ key, key_name, day, model, calls }) => [key, key_name, day, model, calls]);
    const expected = [
      [keyId, "laptop", "2026-01-01", "a", 1],
      [keyId, "laptop", "2026-01-02", "a", 1],
      [keyId, "laptop", "2026-01-02", "b", 1],
      ["file:gone", null, "2026-01-03", "a", 1],
    ];
    expect(groups).toEqual(keyId < "file:gone" ? expected : [...expected.slice(3), ...expected.slice(0, 3)]);
    const [total] = await cli.json<Row[]>("usage");
    expect(total).toEqual({
      calls: 4,
      prompt_tokens: 40,
      completion_tokens: 80,
      cached_tokens: 8,
      reasoning_tokens: 20,
      audio_seconds: 0,
      characters: 0,
      cost_usd: 1.000000005,
      estimated: 1,
      uncertain: 0,
      failed: 1,
      unpriced: 1,
    });
  });

  test("is narrowed down by time, key, model and channel", async () => {
    const { cli } = await world();
    const calls = async (...options: readonly string[]): Promise<unknown> => (await cli.json<Row[]>("usage", ...options))[0]?.["calls"];
    expect(await calls("--since", "2026-01-02")).toBe(3);
    expect(await calls("--since", "2026-01-02", "--until", "2026-01-03")).toBe(2);
    expect(await calls("--since", "2026-01-02T01:00:00+01:00", "--until", "2026-01-02T23:00Z")).toBe(1);
    expect(await calls("--since", "1h")).toBe(0);
    expect(await calls("--key", "laptop")).toBe(3);
    expect(await calls("--key", "file:gone")).toBe(1);
    expect(await calls("--model", "b")).toBe(1);
    expect(await calls("--channel", "channel-1")).toBe(3);
    const { err } = await cli.here(["usage", "--key", "nobody"]);
    expect(err).toContain('there is no key "nobody" (see sluice keys list)');
  });

  test("is printed as a table with a total, without empty columns", async () => {
    const { cli } = await world();
    const { out } = await cli.run(["usage", "--by", "model"]);
    expect(out).toBe(
      [
        "MODEL  CALLS  FAILED  PROMPT  CACHED  COMPLETION  REASONING   COST USD  ESTIMATED  UNPRICED",
        "a          3       0      30       6          60         15          1          0         1",
        "b          1       1      10       2          20          5  <0.000001          1         0",
        "total      4       1      40       8          80         20          1          1         1",
        "",
      ].join("\n"),
    );
  });

  test("tells how calls ended, compares two models, and sums up what an invoice should say", async () => {
    const { cli } = await world();
    const [row] = await cli.json<Row[]>("usage", "--outcomes");
    expect(row).toMatchObject({ calls: 4, failed: 1, truncated: 1, failed_over: 0, cached_tokens: 8, cache_saved_usd: 0 });
    const { out, err } = await cli.run(["usage", "--outcomes", "--by", "model"]);
    expect(out.split("\n")[0]).toMatch(/^MODEL +CALLS +FAILED +TRUNCATED +PROMPT TOKENS/);
    expect(err).toContain("counted since 2026-01-01");
    const models = await cli.json<Row[]>("usage", "--model", "a", "--against", "b");
    expect(models).toMatchObject([
      { model: "a", calls: 3, truncated: 1, took: { calls: 3 } },
      { model: "b", calls: 1, failed: 1, took: null },
    ]);
    const compared = await cli.run(["usage", "--model", "a", "--against", "b"]);
    expect(compared.out).toMatch(/^calls +3 +1$/m);
    const invoice = await cli.json<Row[]>("usage", "--invoice", "2026-01");
    expect(invoice).toMatchObject([{ channel: "channel-1", model: "upstream-model-1", attempts: 4, prompt_tokens: 40 }]);
    expect((await cli.run(["usage", "--invoice", "2026-01"])).out).toContain("channel-1");
    expect((await cli.here(["usage", "--invoice", "January"])).err).toContain("Give a month such as 2027-01.");
    expect((await cli.here(["usage", "--against", "b"])).err).toContain("name the other one with --model");
    expect(await cli.json<Row[]>("requests", "--outcome", "truncated")).toMatchObject([{ model: "a", outcomes: ["truncated"] }]);
  });

  test("has an unknown cost if no price is known, not a cost of zero", async () => {
    const { cli } = await world();
    expect(await cli.json<Row[]>("usage", "--by", "model,day", "--key", "laptop")).toMatchObject([
      { model: "a", day: "2026-01-01", cost_usd: 1.000000001, unpriced: 0 },
      { model: "a", day: "2026-01-02", cost_usd: null, unpriced: 1 },
      { model: "b", day: "2026-01-02", cost_usd: 0.000000001, unpriced: 0 },
    ]);
    const unpriced = ["usage", "--until", "2026-01-02T01:00Z", "--since", "2026-01-02", "--by", "model"];
    expect((await cli.run(unpriced)).out).toBe(
      [
        "MODEL  CALLS  PROMPT  CACHED  COMPLETION  REASONING  COST USD  UNPRICED",
        "a          1      10       2          20          5   unknown         1",
        "",
      ].join("\n"),
    );
    const [heading = "", row = ""] = (await cli.run([...unpriced, "--csv"])).out.split("\r\n");
    expect(row.split(",")[heading.split(",").indexOf("cost_usd")]).toBe("");
  });

  test("is CSV for spreadsheets, in which no name is a formula or moves a cursor", async () => {
    const cli = new CommandLine();
    await left(cli, [{ model: '=cmd,"x"\u001b[2J', billedNanos: 1 }]);
    const { out } = await cli.run(["usage", "--csv", "--by", "model"]);
    const [heading = "", row = ""] = out.split("\r\n");
    expect(heading.startsWith("model,calls,prompt_tokens")).toBe(true);
    expect(row.startsWith(`"'=cmd,""x""\\u{1b}[2J",1,10,20`)).toBe(true);
  });

  test.skipIf(engines[1]?.skipped !== null)("is the same from PostgreSQL", async () => {
    const { cli, keyId } = await world({ store: await freshPostgresUrl() });
    const rows = await cli.json<Row[]>("usage", "--by", "key");
    expect(rows.find(({ key }) => key === keyId)).toMatchObject({ key_name: "laptop", calls: 3, cost_usd: 1.000000002, unpriced: 1 });
  });
});

test("what a key has spent of its budget is shown with it", async () => {
  const cli = new CommandLine();
  const { id: keyId } = await cli.json<{ id: string }>("keys", "create", "laptop", "--budget", "5", "--budget-period", "day");
  const journal = journalOf(cli);
  await journal.close(sampleReceipt({ keyId, startedMs: Date.now(), billedNanos: 1_250_000_000 }));
  await journal.close(sampleReceipt({ keyId, startedMs: Date.now() - 3 * 86_400_000, billedNanos: 9_000_000_000 }));
  await journal.stop();
  await eventually("the receipts are in the store", async () => (await cli.json<Row[]>("usage"))[0]?.["calls"] === 2);
  expect((await cli.here(["keys", "show", "laptop"])).out).toContain("1.25 of 5 dollars a day");
});
