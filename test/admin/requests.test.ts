// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import type { ExplainRequest, Explained } from "../../src/admin/services.ts";
import type { AttemptReceipt } from "../../src/usage/receipt.ts";
import { codeOf, startAdmin, tester, type Called, type ErrorBody, type StartOptions } from "../support/admin.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { newKey } from "../support/new-key.ts";

async function rig(options: StartOptions = {}) {
  const world = await startAdmin(options);
  const [admin, viewer] = [await world.token("admin"), await world.token("viewer")];
  return {
    world,
    look: (path: string): Promise<Called> => world.call("GET", `/admin/api${path}`, { headers: viewer }),
    explain: (body: unknown): Promise<Called> => world.call("POST", "/admin/api/explain", { headers: admin, body }),
  };
}

const [answered] = sampleReceipt().attempts as readonly [AttemptReceipt];

describe("one request", () => {
  test("is shown in full: which channels were tried and why, the attempts, and the three figures of its cost", async () => {
    const { world, look } = await rig();
    await world.storage.keys.create("key-1", { ...newKey, name: "app" }, { digest: "d".repeat(64), last4: "abcd" }, tester);
    const failed: AttemptReceipt = {
      ...answered,
      channel: "channel-2",
      outcome: "failed",
      status: 503,
      error: "overloaded",
      blame: "channel",
      hedge: true,
      nanos: null,
      costUncertain: true,
      completionTokens: 5,
    };
    const receipt = sampleReceipt({
      attempts: [failed, answered],
      billedNanos: 2_500_000_000,
      hedgeWasteNanos: 500_000_000,
      costUncertain: true,
      plan: [
        { channel: "channel-1", model: "upstream-model-1", tier: 0, verdict: "taken", cause: null, forMs: null },
        { channel: "channel-3", model: "upstream-model-3", tier: null, verdict: "cooling", cause: "rate_limited", forMs: 1_500 },
      ],
    });
    await world.receipts(receipt);
    const view = (await look(`/requests/${receipt.requestId}`)).json as Record<string, unknown>;
    expect(view).toMatchObject({
      id: receipt.id,
      request_id: receipt.requestId,
      key: "key-1",
      key_name: "app",
      state: "complete",
      started_at: "2026-01-31T14:05:00.000Z",
      first_content_ms: 345,
      delivered: { prompt_tokens: 10, completion_tokens: 20, cached_tokens: 2 },
      generated_tokens: 25,
      billed_usd: 2.5,
      hedge_waste_usd: 0.5,
      cost_uncertain: true,
      attempts: [
        {
          channel: "channel-2",
          outcome: "failed",
          status: 503,
          error: "overloaded",
          blame: "channel",
          hedge: true,
          cost_usd: null,
          cost_uncertain: true,
        },
        { channel: "channel-1", outcome: "answered", after_ms: 1, took_ms: 1_230, cost_usd: 0.000001, hedge: false },
      ],
      plan: [
        { channel: "channel-1", tier: 0, verdict: "taken", cause: null, for_ms: null },
        { channel: "channel-3", tier: null, verdict: "cooling", cause: "rate_limited", for_ms: 1_500 },
      ],
    });
    expect((await look(`/requests/${receipt.id}`)).json).toEqual(view);
  });

  test("is shown with the other calls that have the same request id", async () => {
    const { world, look } = await rig();
    const [older, newer] = [1, 2].map((day) => sampleReceipt({ id: Bun.randomUUIDv7("hex", day * 86_400_000), requestId: "mine" }));
    await world.receipts(older!);
    await world.receipts(newer!);
    expect((await look("/requests/mine")).json).toMatchObject({ id: newer!.id, namesakes: [older!.id] });
    expect((await look(`/requests/${older!.id}`)).json).toMatchObject({ id: older!.id, namesakes: [newer!.id] });
  });

  test("that does not exist is not found, whatever its id", async () => {
    const { world, look } = await rig();
    await world.receipts(sampleReceipt({ requestId: "req-1" }));
    for (const id of ["req-2", "REQ-1", "req-1%25", "%27%20or%201%3D1", "x".repeat(300), Bun.randomUUIDv7()]) {
      const called = await look(`/requests/${id}`);
      expect([id, called.status, codeOf(called)]).toEqual([id, 404, "not_found"]);
    }
  });
});

describe("a dry run", () => {
  const explained: Explained = {
    outcome: "wait",
    refusals: [{ status: 429, code: "rate_limit_exceeded", message: "Too many." }],
    unknown: ["Something else may."],
    mode: "last_resort",
    candidates: [{ channel: "main", model: "large-1", tier: 0, weight: 2, probe: true, priced: false, learned: [] }],
    skipped: [{ channel: "other", model: "large-2", because: "cooling", scope: "host x:443", cause: "unreachable", forMs: 900 }],
    retryAfterMs: 900,
    reserve: { tokens: 1_100, nanos: 1_500_000 },
  };

  test("passes the given key to the gateway, and returns its answer", async () => {
    const asked: ExplainRequest[] = [];
    const { world, explain } = await rig({
      services: {
        fileKeys: () => [{ ...newKey, id: "file:ci", name: "ci" }],
        explain: async (ask) => {
          asked.push(ask);
          return { ...explained, secret: "not for the answer" } as Explained;
        },
      },
    });
    await world.storage.keys.create(
      "key-1",
      { ...newKey, name: "app", models: ["large"] },
      { digest: "d".repeat(64), last4: "abcd" },
      tester,
    );
    const called = await explain({ model: "large", operation: "chat", key: "app", stream: true, prompt_tokens: 500 });
    expect(called.json).toEqual({
      ...{
        outcome: "wait",
        mode: "last_resort",
        refusals: explained.refusals,
        unknown: ["Something else may."],
        candidates: explained.candidates,
        retry_after_ms: 900,
      },
      skipped: [{ channel: "other", model: "large-2", because: "cooling", scope: "host x:443", cause: "unreachable", for_ms: 900 }],
      reserve: { tokens: 1_100, cost_usd: 0.0015 },
    } as never);
    expect(asked[0]).toMatchObject({
      model: "large",
      operation: "chat",
      stream: true,
      promptTokens: 500,
      key: { id: "key-1", models: ["large"] },
    });
    await explain({ model: "large", operation: "speech", key: "file:ci" });
    await explain({ model: "large", operation: "speech" });
    expect(asked.slice(1).map(({ key, stream, promptTokens }) => [key?.id, stream, promptTokens])).toEqual([
      ["file:ci", false, null],
      [undefined, false, null],
    ]);
  });

  test("refuses a revoked or expired key", async () => {
    const { world, explain } = await rig();
    const mark = (at: number) => ({ digest: `${at}`.repeat(64), last4: "abcd" });
    await world.storage.keys.create("key-1", { ...newKey, name: "revoked" }, mark(1), tester);
    await world.storage.keys.revoke("key-1", tester);
    await world.storage.keys.create("key-2", { ...newKey, name: "expired", expiresMs: Date.now() - 1 }, mark(2), tester);
    for (const key of ["revoked", "expired"]) {
      expect((await explain({ model: "large", operation: "chat", key })).json).toMatchObject({
        outcome: "refuse",
        refusals: [{ status: 401, code: "invalid_api_key" }],
        candidates: [],
      });
    }
  });

  test("refuses unknown fields", async () => {
    const { explain } = await rig();
    for (const [body, param] of [
      [{ model: "large", operation: "dance" }, "operation"],
      [{ operation: "chat" }, "model"],
      [{ model: "large", operation: "chat", key: "nobody" }, "key"],
      [{ model: "large", operation: "chat", prompt_tokens: -1 }, "prompt_tokens"],
      [{ model: "large", operation: "chat", messages: [] }, "messages"],
    ] as const) {
      const called = await explain(body);
      expect([called.status, (called.json as ErrorBody).error.param]).toEqual([400, param]);
    }
  });
});

describe("the audit trail", () => {
  test("lists who did what, newest first, in pages and filtered", async () => {
    const { world, look } = await rig();
    for (let at = 0; at < 5; at++) {
      await world.storage.prices.set(
        { provider: null, model: `m${at}`, fromMs: 0, rates: { input: at }, note: null },
        { kind: "cli", name: "ada" },
      );
    }
    await world.storage.audit.note("account.login", "ben", { ok: true }, { kind: "admin", name: "ben", address: "10.1.2.3" });
    const list = async (query: string) =>
      (await look(`/audit?${query}`)).json as { readonly entries: readonly Record<string, unknown>[]; readonly next: string | null };
    const [newest] = (await list("limit=1")).entries;
    expect(newest).toMatchObject({
      action: "account.login",
      subject: "ben",
      actor: { kind: "admin", name: "ben", address: "10.1.2.3" },
      detail: { ok: true },
    });
    const models: unknown[] = [];
    let next: string | null = "";
    for (let page = 0; page < 9 && next !== null; page++) {
      const found = await list(`action=price.set&actor=ada&since=1h&limit=2${next === "" ? "" : `&before=${next}`}`);
      models.push(...found.entries.map(({ detail }) => (detail as { readonly model: string }).model));
      next = found.next;
    }
    expect(models).toEqual(["m4", "m3", "m2", "m1", "m0"]);
    expect((await list("subject=ben")).entries.length).toBe(1);
    expect((await list("actor=nobody")).entries).toEqual([]);
    expect((await list(`since=${new Date(Date.now() + 60_000).toISOString()}`)).entries).toEqual([]);
    for (const query of ["limit=201", "limit=1e9", "since=soon", "action=", "subject=%00", `actor=${"x".repeat(201)}`]) {
      expect([query, (await look(`/audit?${query}`)).status]).toEqual([query, 400]);
    }
  });
});
