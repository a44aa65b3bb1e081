// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { limitsField } from "../../src/admin/fields/limits-field.ts";
import { limitsView, type KeyView } from "../../src/manage/key-view.ts";
import { fileSchema } from "../../src/config/schema.ts";
import type { Key } from "../../src/keys/key.ts";
import { adminTokenPrefix, makeToken } from "../../src/keys/token.ts";
import { unlimited, unlimitedRates } from "../../src/limits/limits.ts";
import { codeOf, startAdmin, storeText, tester, type AdminWorld, type Called, type ErrorBody } from "../support/admin.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { newKey } from "../support/new-key.ts";

const random = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));

interface Actors {
  readonly world: AdminWorld;
  /** As an admin. */
  readonly call: (method: string, path: string, body?: unknown) => Promise<Called>;
  readonly look: (path: string) => Promise<Called>;
}

async function actors(options: Parameters<typeof startAdmin>[0] = {}): Promise<Actors> {
  const world = await startAdmin(options);
  const [admin, viewer] = [await world.token("admin"), await world.token("viewer")];
  return {
    world,
    call: (method, path, body) => world.call(method, `/admin/api${path}`, { headers: admin, ...(body === undefined ? {} : { body }) }),
    look: (path) => world.call("GET", `/admin/api${path}`, { headers: viewer }),
  };
}

const shown = (called: Called): KeyView & { readonly token?: string | null } => called.json as KeyView & { readonly token?: string | null };
const listed = (called: Called) => called.json as { readonly keys: readonly KeyView[]; readonly next: string | null };
const errorOf = (called: Called) => (called.json as ErrorBody).error;

const fileKey: Key = {
  id: "file:ci",
  name: "ci",
  models: ["small"],
  operations: ["chat"],
  channels: null,
  expiresMs: null,
  splits: { audio: false, input: true },
  group: null,
  limits: { ...unlimited, requests: 5 },
};

describe("making a key", () => {
  test("shows its token once and never again", async () => {
    const { world, call, look } = await actors();
    const made = await call("POST", "/keys", { name: "Ada's app", owner: "ada", note: "two\nlines", operations: ["chat"] });
    expect(made.status).toBe(201);
    const { id, token, tokens } = shown(made);
    expect(token).toMatch(/^sk-gw_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/);
    expect(tokens).toEqual([{ last4: token!.slice(-4), created_at: expect.any(String), expires_at: null }]);
    const opened = await world.storage.keys.byDigest(world.services.digest(token!));
    expect(opened?.key).toMatchObject({ id, name: "Ada's app", owner: "ada", note: "two\nlines", operations: ["chat"], models: null });
    for (const path of ["/keys", `/keys/${id}`, "/audit"]) {
      const called = await look(path);
      expect(called.status).toBe(200);
      expect(called.text).not.toContain(token!.slice(20));
    }
    const kept = await storeText(world);
    expect(kept).toContain(id);
    expect(kept).not.toContain(token!.slice(20));
  });

  test("takes limits as the configuration file writes them, with exact dollars", async () => {
    const { world, call } = await actors();
    const limits = {
      rpm: 60,
      tpm: 1e6,
      concurrency: 4,
      budget_usd: "0.1",
      budget_period: "day",
      unpriced: "allow",
      per_model: [{ model: "large*", budget_usd: 2.5, audio_seconds: 30 }],
    };
    const { id, limits: answered } = shown(await call("POST", "/keys", { name: "app", limits }));
    expect(answered).toEqual({
      ...limits,
      budget_usd: 0.1,
      per_model: [{ model: "large*", budget_usd: 2.5, budget_period: "total", audio_seconds: 30 }],
    } as never);
    expect((await world.storage.keys.get(id))?.limits).toEqual({
      ...unlimited,
      requests: 60,
      tokens: 1e6,
      concurrency: 4,
      budget: { nanos: 100_000_000, period: "day" },
      unpriced: "allow",
      models: [{ ...unlimitedRates, pattern: "large*", audioSeconds: 30, budget: { nanos: 2_500_000_000, period: "total" } }],
    });
  });

  test.each([
    ["no name", {}, "name"],
    ["an empty name", { name: " " }, "name"],
    ["a name with a line break", { name: "a\nb" }, "name"],
    ["a name like those of the file", { name: "file:x" }, "name"],
    ["an unknown operation", { name: "a", operations: ["dance"] }, "operations.0"],
    ["no operation at all", { name: "a", operations: [] }, "operations"],
    ["a limit of nothing", { name: "a", limits: { rpm: 0 } }, "limits.rpm"],
    ["a limit that is no number", { name: "a", limits: { tpm: "many" } }, "limits.tpm"],
    ["a negative budget", { name: "a", limits: { budget_usd: -1 } }, "limits.budget_usd"],
    ["a budget beyond what is exact", { name: "a", limits: { budget_usd: 1e8 } }, "limits.budget_usd"],
    ["a period without a budget", { name: "a", limits: { budget_period: "day" } }, "limits.budget_period"],
    ["a day that does not exist", { name: "a", expires_at: "2030-02-31" }, "expires_at"],
    ["an end that is over", { name: "a", expires_at: "2020-01-01" }, "expires_at"],
    ["a time without its zone", { name: "a", expires_at: "2030-01-01T00:00:00" }, "expires_at"],
  ])("refuses %s by its name", async (_, body, param) => {
    const { world, call } = await actors();
    const called = await call("POST", "/keys", body);
    expect([called.status, errorOf(called).param]).toEqual([400, param]);
    expect(await world.storage.keys.count()).toBe(0);
  });

  test("refuses a name that another key has, also one of the file", async () => {
    const { call } = await actors({ services: { fileKeys: () => [fileKey] } });
    expect((await call("POST", "/keys", { name: "app" })).status).toBe(201);
    for (const name of ["app", "ci"]) {
      const again = await call("POST", "/keys", { name });
      expect([again.status, codeOf(again)]).toEqual([409, "conflict"]);
    }
  });
});

describe("importing a key", () => {
  const existing = "old-gateway-key-".repeat(3);

  test("makes it work, and never shows it", async () => {
    const { world, call } = await actors();
    const made = await call("POST", "/keys", { name: "old", import: existing });
    expect([made.status, shown(made).token]).toEqual([201, null]);
    expect(made.text).not.toContain(existing);
    expect((await world.storage.keys.byDigest(world.services.digest(existing)))?.key.id).toBe(shown(made).id);
    const trail = await call("GET", "/audit");
    expect(trail.text).not.toContain(existing);
  });

  test("keeps the id of one that Sluice made", async () => {
    const { call } = await actors();
    const { token, publicId } = makeToken(random);
    expect(shown(await call("POST", "/keys", { name: "moved", import: token })).id).toBe(publicId);
  });

  test("refuses a known token, without telling whose it is", async () => {
    const inFile = "the-key-that-is-in-the-configuration-file";
    const { call } = await actors({ services: { opensFileKey: (token) => token === inFile } });
    await call("POST", "/keys", { name: "secret-project", import: existing });
    for (const token of [existing, inFile]) {
      const again = await call("POST", "/keys", { name: "other", import: token });
      expect([again.status, codeOf(again)]).toEqual([409, "conflict"]);
      expect(again.text).not.toContain("secret-project");
      expect(again.text).not.toContain(token);
    }
  });

  const damaged = `${makeToken(random).token.slice(0, -1)}!`;
  test.each([
    ["short", "x".repeat(31)],
    ["long", "x".repeat(513)],
    ["with a space", `${"x".repeat(40)} y`],
    ["with a comma", `${"x".repeat(40)},y`],
    ["outside ASCII", `${"x".repeat(40)}ü`],
    ["with a wrong checksum", damaged],
    ["of an admin", makeToken(random, adminTokenPrefix).token],
  ])("refuses one that is %s", async (_, token) => {
    const { world, call } = await actors();
    const called = await call("POST", "/keys", { name: "old", import: token });
    expect([called.status, errorOf(called).param]).toEqual([400, "import"]);
    expect(called.text).not.toContain(token);
    expect(await world.storage.keys.count()).toBe(0);
  });
});

describe("changing a key", () => {
  test("with its etag is refused if it has changed since, and not if it was merely used", async () => {
    const { world, call } = await actors();
    const admin = await world.token("admin");
    const { id } = shown(await call("POST", "/keys", { name: "app", limits: { rpm: 5 } }));
    const read = await call("GET", `/keys/${id}`);
    const patch = (ifMatch: string, body: unknown): Promise<Called> =>
      world.call("PATCH", `/admin/api/keys/${id}`, { headers: { ...admin, "if-match": ifMatch }, body });
    const first = read.headers.get("etag") ?? "";
    expect(first).toMatch(/^"[0-9a-f]{32}"$/);
    await world.storage.keys.used(new Map([[id, Date.now()]]));
    const changed = await patch(first, { limits: { rpm: 5, tpm: 7 } });
    expect([changed.status, changed.headers.get("etag") === first]).toEqual([200, false]);
    const late = await patch(first, { limits: { rpm: 5, concurrency: 2 } });
    expect([late.status, codeOf(late), errorOf(late).param]).toEqual([412, "precondition_failed", "if-match"]);
    expect(await call("GET", `/keys/${id}`)).toMatchObject({ json: { limits: { rpm: 5, tpm: 7 } } });
    expect((await patch(changed.headers.get("etag") ?? "", { note: "x" })).status).toBe(200);
    expect((await patch("*", { note: "y" })).status).toBe(200);
    expect(world.bugs).toEqual([]);
  });

  test("leaves absent fields as they are, and null clears one", async () => {
    const { call } = await actors();
    const before = shown(
      await call("POST", "/keys", {
        name: "app",
        owner: "ada",
        models: ["small"],
        long_audio: "split",
        limits: { rpm: 5 },
        expires_at: "2100-01-01",
      }),
    );
    const { token: _, ...rest } = before;
    const changed = await call("PATCH", `/keys/${before.id}`, { owner: null, long_input: "split", models: null, limits: { tpm: 7 } });
    expect(changed.json).toEqual({ ...rest, owner: null, long_input: "split", models: null, limits: { tpm: 7 } });
    expect((await call("GET", `/keys/${before.id}`)).json).toEqual(changed.json);
    expect(shown(await call("PATCH", `/keys/${before.id}`, { expires_at: null, limits: {} }))).toMatchObject({
      expires_at: null,
      limits: {},
    });
  });

  test("S32: refuses unknown fields, and changes nothing", async () => {
    const { world, call } = await actors();
    const { id } = shown(await call("POST", "/keys", { name: "app", limits: { rpm: 5 } }));
    const before = await world.storage.keys.get(id);
    for (const more of [
      { is_admin: true },
      { scopes: { models: null } },
      { id: "other" },
      { created_at: "2020-01-01" },
      { revoked_at: null },
      { tokens: [] },
      { source: "file" },
      { limits: { rpm: 6, requests: 6 } },
      { limits: { per_model: [{ model: "x", rpm: 1, budget: 5 }] } },
      { import: "x".repeat(40) },
    ]) {
      const called = await call("PATCH", `/keys/${id}`, { name: "changed", ...more });
      expect([called.status, codeOf(called)]).toEqual([400, "unknown_field"]);
    }
    const polluted = await world.call("PATCH", `/admin/api/keys/${id}`, {
      headers: { ...(await world.token("admin")), "content-type": "application/json" },
      raw: '{"name":"changed","__proto__":{"is_admin":true}}',
    });
    expect(polluted.status).toBe(400);
    expect((await call("PATCH", `/keys/${id}`, {})).status).toBe(400);
    expect(await world.storage.keys.get(id)).toEqual(before);
  });

  test("gives it a new token, and the old one works for another day by default", async () => {
    const { world, call } = await actors();
    const first = shown(await call("POST", "/keys", { name: "app" }));
    const second = shown(await call("POST", `/keys/${first.id}/rotate`, {}));
    const until = async (token: string): Promise<number | null | undefined> =>
      (await world.storage.keys.byDigest(world.services.digest(token)))?.tokenExpiresMs;
    expect(await until(second.token!)).toBeNull();
    expect(Math.abs((await until(first.token!))! - Date.now() - 86_400_000)).toBeLessThan(60_000);
    expect(second.tokens.map(({ last4 }) => last4)).toEqual([second.token!.slice(-4), first.token!.slice(-4)]);
    const third = shown(await call("POST", `/keys/${first.id}/rotate`, { overlap_seconds: 0 }));
    expect((await until(second.token!))! <= Date.now()).toBe(true);
    expect(third.token).not.toBe(second.token);
    for (const overlap of [-1, 7 * 86_400 + 1, 1.5, "1", null]) {
      expect((await call("POST", `/keys/${first.id}/rotate`, { overlap_seconds: overlap })).status).toBe(400);
    }
    expect((await call("POST", `/keys/${first.id}/rotate`, { overlap_seconds: 7 * 86_400 })).status).toBe(200);
  });

  test("revokes it for good, and a second time changes nothing", async () => {
    const { call, look } = await actors();
    const { id } = shown(await call("POST", "/keys", { name: "app" }));
    const revoked = shown(await call("POST", `/keys/${id}/revoke`, {}));
    expect([revoked.state, typeof revoked.revoked_at]).toEqual(["revoked", "string"]);
    expect(shown(await call("POST", `/keys/${id}/revoke`, {})).revoked_at).toBe(revoked.revoked_at);
    expect(listed(await look("/keys")).keys).toEqual([]);
    expect(listed(await look("/keys?revoked=true")).keys.map((key) => key.id)).toEqual([id]);
    const rotated = await call("POST", `/keys/${id}/rotate`, {});
    expect([rotated.status, codeOf(rotated)]).toEqual([409, "conflict"]);
  });

  test("shows an expired one as such", async () => {
    const { world, call, look } = await actors();
    const { id } = shown(await call("POST", "/keys", { name: "app", expires_at: new Date(Date.now() + 60_000).toISOString() }));
    expect(shown(await look(`/keys/${id}`)).state).toBe("active");
    world.pass(120_000);
    expect(shown(await look(`/keys/${id}`)).state).toBe("expired");
  });
});

describe("keys of the configuration file", () => {
  test("are shown with the others, and a change is refused with the place where to make it", async () => {
    const { call, look } = await actors({ services: { fileKeys: () => [fileKey] } });
    expect(shown(await look("/keys/file:ci"))).toMatchObject({
      name: "ci",
      source: "file",
      state: "active",
      models: ["small"],
      limits: { rpm: 5 },
      long_input: "split",
      created_at: null,
      tokens: [],
    });
    await call("POST", "/keys", { name: "app" });
    expect(listed(await look("/keys")).keys.map(({ source }) => source)).toEqual(["file", "store"]);
    for (const [method, path, body] of [
      ["PATCH", "/keys/file:ci", { note: "x" }],
      ["POST", "/keys/file:ci/rotate", {}],
      ["POST", "/keys/file:ci/revoke", {}],
    ] as const) {
      const called = await call(method, path, body);
      expect([called.status, codeOf(called)]).toEqual([409, "in_file"]);
      expect(errorOf(called).message).toContain("sluice.yaml, line 2");
    }
  });
});

describe("looking for keys", () => {
  test("S16: takes the search text literally, and limits every parameter", async () => {
    const { world, look } = await actors({ services: { fileKeys: () => [fileKey] } });
    // Ids of our own: one of chance may hold any two letters that are looked for.
    for (const [id, name, owner] of [
      ["k001", "Alpha", "Bella"],
      ["k002", "beta 100%", null],
      ["k003", "gamma_1", null],
    ] as const) {
      await world.storage.keys.create(id, { ...newKey, name, owner }, { digest: id.repeat(8), last4: "abcd" }, tester);
    }
    const names = async (query: string): Promise<readonly string[]> =>
      listed(await look(`/keys?${query}`))
        .keys.map(({ name }) => name)
        .toSorted();
    expect(await names("search=BE")).toEqual(["Alpha", "beta 100%"]);
    expect(await names("search=CI")).toEqual(["ci"]);
    expect(await names("search=K003")).toEqual(["gamma_1"]);
    expect(await names("search=%25")).toEqual(["beta 100%"]);
    expect(await names("search=_")).toEqual(["gamma_1"]);
    expect(await names(`search=${encodeURIComponent("%%%%____")}`)).toEqual([]);
    expect(await names(`search=${encodeURIComponent("' or 1=1 --")}`)).toEqual([]);
    for (const query of [
      `search=${"%25".repeat(201)}`,
      `search=${"x".repeat(10_240)}`,
      "search=%00",
      "search=",
      "limit=1e9",
      "limit=201",
      "limit=0",
      "limit=-1",
      "limit=1.5",
      "limit=all",
      "sort=name",
      "revoked=maybe",
      "after=",
      `after=${"x".repeat(300)}`,
      "limit=1&limit=2",
    ]) {
      expect([query.slice(0, 30), (await look(`/keys?${query}`)).status]).toEqual([query.slice(0, 30), 400]);
    }
    expect((await look("/keys?after=nonsense")).status).toBe(200);
  });

  test("returns each key once, whatever the size of a page", async () => {
    const own = Array.from({ length: 5 }, (_, at) => ({ ...fileKey, id: `file:f${at}`, name: `f${at}` }));
    const { world, look } = await actors({ services: { fileKeys: () => own.toReversed() } });
    for (let at = 0; at < 11; at++) {
      await world.storage.keys.create(
        `id${String(at).padStart(2, "0")}`,
        { ...newKey, name: `n${at}` },
        { digest: `${at}`.repeat(8), last4: "abcd" },
        tester,
      );
    }
    const all = [...own.map(({ id }) => id), ...Array.from({ length: 11 }, (_, at) => `id${String(at).padStart(2, "0")}`)];
    for (const limit of [1, 3, 5, 8, 16, 200]) {
      const seen: string[] = [];
      let next: string | null = "";
      for (let page = 0; page < 40 && next !== null; page++) {
        const called = listed(await look(`/keys?limit=${limit}${next === "" ? "" : `&after=${encodeURIComponent(next)}`}`));
        expect(called.keys.length).toBeLessThanOrEqual(limit);
        seen.push(...called.keys.map(({ id }) => id));
        next = called.next;
      }
      expect([limit, next, seen]).toEqual([limit, null, all]);
    }
  });
});

describe("limits", () => {
  const amount = fc.integer({ min: 0, max: 8e15 }).map((nanos) => ({ nanos, period: "day" as const }));
  const count = (max: number) => fc.option(fc.integer({ min: 1, max }));
  const rates = {
    requests: count(1e9),
    tokens: count(1e12),
    audioSeconds: count(1e9),
    characters: count(1e12),
    concurrency: count(1e6),
    budget: fc.option(amount),
  };

  test("that are shown can be sent back, and mean the same", () => {
    const any = fc.record({
      ...rates,
      budgets: fc.constant([]),
      unpriced: fc.constantFrom("refuse" as const, "allow" as const),
      models: fc.array(fc.record({ pattern: fc.constantFrom("large*", "small"), ...rates }), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(any, (limits) => {
        expect(limitsField.parse(JSON.parse(JSON.stringify(limitsView(limits))))).toEqual(limits);
      }),
    );
  });

  test("have the bounds of the configuration file", () => {
    const edges = [0, 1, 2, 0.5, -1, 1e6, 1e6 + 1, 1e9, 1e9 + 1, 1e12, 1e12 + 1, 9e6, 9e6 + 1, 1e-9, NaN, null, true, [], {}];
    const word = fc.constantFrom("rpm", "tpm", "audio_seconds", "characters", "concurrency", "budget_usd");
    const inFile = (limits: unknown): boolean =>
      fileSchema.safeParse({ keys: [{ name: "a", key: "k".repeat(32), limits }], channels: [] }).success;
    fc.assert(
      fc.property(word, fc.constantFrom(...edges), fc.boolean(), (name, value, perModel) => {
        const limits = perModel ? { per_model: [{ model: "x", [name]: value }] } : { [name]: value };
        expect([name, value, limitsField.safeParse(limits).success]).toEqual([name, value, inFile(limits)]);
      }),
      { numRuns: 300 },
    );
  });
});

describe("the standing of a key", () => {
  test("shows what was spent of each budget in its period", async () => {
    const { world, call, look } = await actors();
    const limits = {
      budget_usd: 10,
      budget_period: "month",
      per_model: [
        { model: "large*", budget_usd: 1, budget_period: "day" },
        { model: "small", budget_usd: 5 },
      ],
    };
    const { id } = shown(await call("POST", "/keys", { name: "app", limits }));
    const nowMs = Date.now();
    const dollar = 1_000_000_000;
    await world.receipts(
      sampleReceipt({ keyId: id, model: "large-1", startedMs: nowMs, billedNanos: 1.5 * dollar }),
      sampleReceipt({ keyId: id, model: "small", startedMs: nowMs, billedNanos: 0.25 * dollar }),
      sampleReceipt({ keyId: id, model: "small", startedMs: nowMs - 400 * 86_400_000, billedNanos: 2 * dollar }),
      sampleReceipt({ keyId: "another", model: "small", startedMs: nowMs, billedNanos: 7 * dollar }),
    );
    const standing = (await look(`/keys/${id}/standing`)).json as { readonly budgets: readonly Record<string, unknown>[] };
    expect(standing.budgets.map(({ models, spent_usd, remaining_usd }) => [models, spent_usd, remaining_usd])).toEqual([
      [null, 1.75, 8.25],
      ["large*", 1.5, 0],
      ["small", 2.25, 2.75],
    ]);
    expect(standing.budgets.map(({ resets_at }) => resets_at === null)).toEqual([false, false, true]);
  });
});
