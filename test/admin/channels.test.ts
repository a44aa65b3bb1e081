// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import type { ChannelView } from "../../src/admin/views/channel-view.ts";
import type { ChannelStatus, ChannelTest, RunningChannels } from "../../src/manage/channel-context.ts";
import { readRuntimeChannel } from "../../src/config/runtime-channel.ts";
import { openDatabase } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { SqliteDatabase } from "../../src/store/sqlite/sqlite.ts";
import { makeStorage } from "../../src/store/storage.ts";
import { makeChannelSecrets } from "../../src/store/secrets/channel-secrets.ts";
import { codeOf, startAdmin, storeText, type AdminWorld, type Called, type ErrorBody, type StartOptions } from "../support/admin.ts";
import { freshDataDir } from "../support/databases.ts";

const secret = "sk-upstream-canary-0123456789-wxyz";
const channelSecrets = makeChannelSecrets({ version: "1", bytes: Buffer.from(crypto.getRandomValues(new Uint8Array(32))) });

interface Rig {
  readonly world: AdminWorld;
  readonly call: (method: string, path: string, body?: unknown) => Promise<Called>;
  readonly look: (path: string) => Promise<Called>;
  /** What a running gateway would tell. */
  readonly running: ChannelStatus[];
}

/** With the real rules for entries and the real encryption. */
async function rig(given: Partial<RunningChannels> = {}, start: StartOptions = {}): Promise<Rig> {
  const running: ChannelStatus[] = [];
  const channels: RunningChannels = {
    isInFile: (name) => running.some((channel) => channel.name === name && channel.source === "file"),
    check: async (entry, secrets) => {
      const reading = readRuntimeChannel(entry, secrets, { allowPrivate: false, localModels: [], own: ["gateway.example.com:4400"] });
      return reading.ok ? [] : reading.problems;
    },
    seal: (name, secrets) => channelSecrets.encrypt(name, secrets),
    status: () => running,
    test: async () => null,
    call: async () => "absent",
    forget: () => 0,
    clear: () => 0,
    ...given,
  };
  const world = await startAdmin({ services: { channels }, ...start });
  const [admin, viewer] = [await world.token("admin"), await world.token("viewer")];
  return {
    world,
    running,
    call: (method, path, body) => world.call(method, `/admin/api${path}`, { headers: admin, ...(body === undefined ? {} : { body }) }),
    look: (path) => world.call("GET", `/admin/api${path}`, { headers: viewer }),
  };
}

const shown = (called: Called): ChannelView => called.json as ChannelView;
const errorOf = (called: Called) => (called.json as ErrorBody).error;
const entry = { base_url: "https://api.example.com/v1", models: { fast: "fast-1" }, tier: 2 };

const status: ChannelStatus = {
  name: "main",
  source: "store",
  provider: null,
  baseUrl: "https://api.example.com/v1",
  tier: 2,
  weight: 1,
  tags: ["eu"],
  models: ["fast"],
  state: "ready",
  troubles: [],
  learned: [],
  running: 3,
  concurrencyMax: 512,
};

describe("a channel that is added", () => {
  test("S51: has its secrets encrypted in the store, and only their ends are shown", async () => {
    const { world, call, look } = await rig();
    const made = await call("POST", "/channels", { name: "main", entry, secrets: [secret, "short"] });
    expect(made.status).toBe(201);
    expect(shown(made)).toMatchObject({
      name: "main",
      source: "store",
      state: "absent",
      entry,
      secrets: [{ last4: "wxyz" }, { last4: "****" }],
    });
    for (const called of [made, await look("/channels"), await look("/channels/main"), await look("/audit")]) {
      expect(called.status < 300).toBe(true);
      expect(called.text).not.toContain("canary");
    }
    expect(await storeText(world)).not.toContain("canary");
    const row = await world.storage.channels.get("main");
    expect(channelSecrets.decrypt("main", row!.sealed!)).toEqual([secret, "short"]);
    expect(channelSecrets.decrypt("other", row!.sealed!)).toMatchObject({ kind: "decryption_error" });
  });

  test.each([
    ["a private address", { ...entry, base_url: "http://10.0.0.1/v1" }, "url_not_allowed", "entry.base_url"],
    ["this machine", { ...entry, base_url: "http://localhost:8080/v1" }, "url_not_allowed", "entry.base_url"],
    ["a cloud's metadata", { ...entry, base_url: "http://169.254.169.254/latest" }, "url_not_allowed", "entry.base_url"],
    ["an address of documentation", { ...entry, base_url: "https://192.0.2.7/v1" }, "url_not_allowed", "entry.base_url"],
    ["a reserved address", { ...entry, base_url: "https://240.0.0.1/v1" }, "url_not_allowed", "entry.base_url"],
    ["an address of many", { ...entry, base_url: "https://0xe0000001/v1" }, "url_not_allowed", "entry.base_url"],
    ["a reserved address of IPv6", { ...entry, base_url: "https://[2001:db8::1]/v1" }, "url_not_allowed", "entry.base_url"],
    ["the gateway itself", { ...entry, base_url: "http://gateway.example.com:4400/v1" }, "url_not_allowed", "entry.base_url"],
    ["a port of something else", { ...entry, base_url: "http://api.example.com:6379/" }, "url_not_allowed", "entry.base_url"],
    ["an address with a password", { ...entry, base_url: "https://user:pass@api.example.com/v1" }, "url_not_allowed", "entry.base_url"],
    ["a file of this machine", { ...entry, api_key_file: "/etc/passwd" }, "invalid_channel", "entry.api_key_file"],
    ["a key outside of the secrets", { ...entry, api_key: secret }, "invalid_channel", "entry.api_key"],
    ["a proxy", { ...entry, proxy: "http://proxy.example.com:3128" }, "invalid_channel", "entry.proxy"],
    ["an unknown setting", { ...entry, base_uri: "x" }, "invalid_channel", "entry.base_uri"],
    ["a wrong value deep inside", { ...entry, timeouts: { connect: "soon" } }, "invalid_channel", "entry.timeouts.connect"],
    ["no address at all", { models: ["fast"] }, null, null],
    ["a name of its own", { ...entry, name: "other" }, "invalid_value", "entry.name"],
  ])("S22, S23, S25: is refused with %s", async (_, given, code, param) => {
    const { world, call } = await rig();
    const called = await call("POST", "/channels", { name: "main", entry: given });
    expect(called.status).toBe(400);
    if (code !== null) expect([errorOf(called).code, errorOf(called).param]).toEqual([code, param]);
    expect(called.text).not.toContain("canary");
    expect(await world.storage.channels.list()).toEqual([]);
  });

  test("is never stored with a key in its entry, even if the running gateway accepts it", async () => {
    const { world, call } = await rig({ check: async () => [] });
    for (const given of [{ api_key: secret }, { api_keys: [secret] }, { api_key_file: secret }]) {
      const called = await call("POST", "/channels", { name: "main", entry: { ...entry, ...given } });
      expect([called.status, codeOf(called)]).toEqual([400, "invalid_channel"]);
    }
    expect(await storeText(world)).not.toContain("canary");
  });

  test("is refused with an invalid or taken name", async () => {
    const { call, running } = await rig();
    running.push({ ...status, name: "filed", source: "file" });
    for (const name of ["", "a b", "-a", "x".repeat(65), "a/b", "ä"])
      expect((await call("POST", "/channels", { name, entry })).status).toBe(400);
    expect((await call("POST", "/channels", { name: "main", entry })).status).toBe(201);
    for (const name of ["main", "filed"]) {
      const again = await call("POST", "/channels", { name, entry });
      expect([again.status, codeOf(again)]).toEqual([409, "conflict"]);
    }
  });

  test("is shown with its state, its cool-downs and its calls", async () => {
    const { call, look, running } = await rig();
    await call("POST", "/channels", { name: "main", entry });
    const trouble = { scope: "host api.example.com:443", state: "open", cause: "unreachable", untilMs: Date.UTC(2030, 0, 1) } as const;
    running.push({ ...status, state: "cooling", troubles: [trouble] });
    expect(shown(await look("/channels/main"))).toMatchObject({
      state: "cooling",
      running: 3,
      concurrency: 512,
      cooling_until_at: "2030-01-01T00:00:00.000Z",
      troubles: [{ scope: trouble.scope, standing: "open", cause: "unreachable", until_at: "2030-01-01T00:00:00.000Z" }],
      entry,
    });
    running[0] = { ...status, state: "impaired", troubles: [trouble] };
    expect(shown(await look("/channels/main")).cooling_until_at).toBeNull();
  });
});

describe("a channel that is changed", () => {
  test("keeps absent settings, and null removes one", async () => {
    const { world, call } = await rig();
    await call("POST", "/channels", { name: "main", entry, secrets: [secret] });
    const before = await world.storage.channels.get("main");
    const changed = shown(await call("PATCH", "/channels/main", { entry: { weight: 3, tier: null } }));
    expect(changed.entry).toEqual({ base_url: entry.base_url, models: entry.models, weight: 3 });
    expect((await world.storage.channels.get("main"))?.sealed).toBe(before!.sealed);
    const rekeyed = shown(await call("PATCH", "/channels/main", { secrets: ["another-key-of-the-upstream"] }));
    expect([rekeyed.secrets, rekeyed.entry]).toEqual([[{ last4: "ream" }], changed.entry]);
    expect(channelSecrets.decrypt("main", (await world.storage.channels.get("main"))!.sealed!)).toEqual(["another-key-of-the-upstream"]);
    expect(shown(await call("PATCH", "/channels/main", { secrets: [] })).secrets).toEqual([]);
    expect((await world.storage.channels.get("main"))?.sealed).toBeNull();
  });

  test("does not send its secrets to a new address", async () => {
    const { world, call } = await rig();
    await call("POST", "/channels", { name: "main", entry, secrets: [secret] });
    for (const move of [
      { base_url: "https://evil.example.net/v1" },
      { base_url: null, provider: "openai" },
      { auth_header: "x-mine" },
      { dialect: "openai" },
    ]) {
      const called = await call("PATCH", "/channels/main", { entry: move });
      expect([called.status, codeOf(called), errorOf(called).param]).toEqual([400, "secrets_needed", "secrets"]);
    }
    expect((await world.storage.channels.get("main"))?.entry).toEqual(entry);
    const moved = await call("PATCH", "/channels/main", { entry: { base_url: "https://new.example.net/v1" }, secrets: [secret] });
    expect(shown(moved).entry).toMatchObject({ base_url: "https://new.example.net/v1" });
  });

  test("S32: is checked by the same rules, and stays as it was if they are broken", async () => {
    const { world, call } = await rig();
    await call("POST", "/channels", { name: "main", entry });
    for (const [body, code] of [
      [{ entry: { base_url: "http://127.0.0.1/v1" } }, "url_not_allowed"],
      [{ entry: { api_key: "x" } }, "invalid_channel"],
      [{ entry: { weight: -1 } }, "invalid_channel"],
      [{ entry: {}, sealed: "x" }, "unknown_field"],
      [{ name: "other" }, "unknown_field"],
      [{}, "invalid_value"],
    ] as const) {
      const called = await call("PATCH", "/channels/main", body);
      expect([called.status, codeOf(called)]).toEqual([400, code]);
    }
    expect((await world.storage.channels.get("main"))?.entry).toEqual(entry);
  });

  test("goes when it is removed", async () => {
    const { call, look } = await rig();
    await call("POST", "/channels", { name: "main", entry });
    expect((await call("DELETE", "/channels/main")).json).toEqual({ removed: "main" });
    expect((await look("/channels/main")).status).toBe(404);
    expect((await call("DELETE", "/channels/main")).status).toBe(404);
  });
});

describe("concurrent changes of one channel", () => {
  test("are both made", async () => {
    // Whoever has read the channel is made to wait before writing, so that others could read it, too.
    const check = async (): Promise<readonly never[]> => {
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
      return [];
    };
    const { world, call } = await rig({ check });
    await call("POST", "/channels", { name: "main", entry });
    const changes = [
      { weight: 3 },
      { tier: 4 },
      { tags: ["eu"] },
      { concurrency: 7 },
      { headers: { "x-team": "red" } },
      { models: ["slow"] },
    ] as const;
    const called = await Promise.all(changes.map((change) => call("PATCH", "/channels/main", { entry: change })));
    expect(called.map(({ status }) => status)).toEqual(changes.map(() => 200));
    expect((await world.storage.channels.get("main"))?.entry).toEqual(Object.assign({ ...entry }, ...changes));
  });

  test("with an If-Match: the second is refused with 412 and changes nothing", async () => {
    const { world, call, look } = await rig();
    const admin = await world.token("admin");
    const made = await call("POST", "/channels", { name: "main", entry, secrets: [secret] });
    const patch = (ifMatch: string, body: unknown): Promise<Called> =>
      world.call("PATCH", "/admin/api/channels/main", { headers: { ...admin, "if-match": ifMatch }, body });
    const first = made.headers.get("etag") ?? "";
    expect(first).toMatch(/^"[0-9a-f]{32}"$/);
    const seen = await look("/channels/main");
    expect([seen.headers.get("etag"), `"${shown(seen).etag}"`]).toEqual([first, first]);
    const listed = (await look("/channels")).json as { readonly channels: readonly ChannelView[] };
    expect(`"${listed.channels[0]?.etag}"`).toBe(first);
    const both = await Promise.all([patch(first, { entry: { weight: 3 } }), patch(first, { entry: { tier: 5 } })]);
    expect(both.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([200, 412]);
    const refused = both.find(({ status }) => status === 412)!;
    expect([codeOf(refused), errorOf(refused).param]).toEqual(["precondition_failed", "if-match"]);
    const now = both.find(({ status }) => status === 200)!.headers.get("etag")!;
    expect(now).not.toBe(first);
    expect((await look("/channels/main")).headers.get("etag")).toBe(now);
    expect(Object.keys((await world.storage.channels.get("main"))!.entry).includes("weight")).toBe(both[0].status === 200);
    for (const wrong of [first, `W/${now}`, now.replaceAll('"', ""), '""', "x", `"${"0".repeat(32)}", ${first}`]) {
      expect([wrong, (await patch(wrong, { secrets: ["another-key-of-the-upstream"] })).status]).toEqual([wrong, 412]);
    }
    expect(channelSecrets.decrypt("main", (await world.storage.channels.get("main"))!.sealed!)).toEqual([secret]);
    expect((await patch(`${first}, ${now}`, { entry: { weight: 9 } })).status).toBe(200);
    expect((await patch("*", { secrets: ["another-key-of-the-upstream"] })).status).toBe(200);
    expect(
      (await world.call("PATCH", "/admin/api/channels/nobody", { headers: { ...admin, "if-match": "*" }, body: { secrets: [] } })).status,
    ).toBe(404);
  });

  test("get 400 with an If-Match on a route that does not support it", async () => {
    const { world } = await rig();
    const headers = { ...(await world.token("admin")), "if-match": "*" };
    for (const { method, path, access, conditional } of world.listener.routes) {
      if (method === "GET" || access === "public" || conditional) continue;
      const called = await world.call(method, path.replaceAll(/\{\w+\}/g, "something"), { headers, body: {} });
      expect([path, called.status, errorOf(called).param]).toEqual([path, 400, "if-match"]);
    }
  });
});

test("S51: a password in an address, which older versions took, is neither shown nor exported", async () => {
  const { world, call, look } = await rig();
  const old = { ...entry, base_url: "https://ada:canary-password@api.example.com/v1" };
  await world.storage.channels.create({ name: "old", entry: old, sealed: null, last4: [] }, { kind: "cli", name: "ada" });
  const file = { text: JSON.stringify({ channels: [{ name: "old", ...entry }] }) };
  for (const called of [
    await look("/channels"),
    await look("/channels/old"),
    await look("/configuration/store"),
    await look("/audit"),
    await call("GET", "/resources"),
    await call("POST", "/resources/diff", file),
  ]) {
    expect([called.status, called.text.includes("api.example.com"), called.text.includes("canary")]).toEqual([200, true, false]);
  }
});

describe("S51: the headers of a channel", () => {
  const hidden = "Bearer canary-in-a-header";
  const headers = { "x-key": hidden, "x-team": "red" };

  /** Over a store that seals them, as a gateway's does. */
  async function sealing(): Promise<Rig & { readonly clear: (entry: object) => Promise<void> }> {
    const dataDir = freshDataDir();
    const database = await openDatabase({ store: "sqlite", dataDir });
    const storage = makeStorage(database, { wallMs: Date.now, newId: () => Bun.randomUUIDv7(), channelSecrets });
    const made = await rig({}, { dataDir, storage: () => storage });
    return {
      ...made,
      world: { ...made.world, storage },
      clear: async (given) => void (await database.run(sql`update channels set entry = ${JSON.stringify(given)} where name = 'main'`)),
    };
  }

  test("are encrypted in the store, shown by name only, and sent unchanged", async () => {
    const { world, call, look } = await sealing();
    const made = await call("POST", "/channels", { name: "main", entry: { ...entry, headers } });
    expect(shown(made).entry).toEqual({ ...entry, headers: { "x-key": "****", "x-team": "****" } });
    for (const called of [made, await look("/channels"), await look("/channels/main"), await look("/audit")]) {
      expect([called.status < 300, called.text.includes("canary")]).toEqual([true, false]);
    }
    expect(await storeText(world)).not.toContain("canary");
    expect(await storeText(world)).toContain("api.example.com");
    expect((await world.storage.channels.get("main"))?.entry).toEqual({ ...entry, headers });
    expect((await world.storage.channels.list())[0]?.entry).toEqual({ ...entry, headers });
  });

  test("that were stored in plain text before are read, and encrypted with the next change", async () => {
    const { world, call, clear } = await sealing();
    await call("POST", "/channels", { name: "main", entry });
    await clear({ ...entry, headers });
    expect((await world.storage.channels.get("main"))?.entry).toEqual({ ...entry, headers });
    for (const change of [{ secrets: ["a-key-of-the-upstream"] }, { entry: { weight: 2 } }]) {
      await clear({ ...entry, headers });
      expect((await call("PATCH", "/channels/main", change)).status).toBe(200);
      const [row] = await rowsOf(world);
      expect(row).not.toContain("canary");
      expect((await world.storage.channels.get("main"))?.entry["headers"]).toEqual(headers);
    }
  });

  test("keep their value when it is given back as it was shown", async () => {
    const { world, call } = await sealing();
    await call("POST", "/channels", { name: "main", entry: { ...entry, headers } });
    const given = { "x-key": "****", "x-more": "1" };
    expect((await call("PATCH", "/channels/main", { entry: { headers: given } })).status).toBe(200);
    expect((await world.storage.channels.get("main"))?.entry["headers"]).toEqual({ "x-key": hidden, "x-more": "1" });
    const unknown = await call("PATCH", "/channels/main", { entry: { headers: { "x-other": "****" } } });
    expect([unknown.status, errorOf(unknown).param]).toEqual([400, "entry.headers"]);
    expect((await call("POST", "/channels", { name: "other", entry: { ...entry, headers: { a: "****" } } })).status).toBe(400);
  });

  test("are not sent to a new address", async () => {
    const { world, call } = await sealing();
    await call("POST", "/channels", { name: "main", entry: { ...entry, headers } });
    const base_url = "https://evil.example.net/v1";
    for (const move of [{ base_url }, { base_url, headers: { "x-key": "****" } }, { base_url, headers: { ...headers, "x-key": "****" } }]) {
      const called = await call("PATCH", "/channels/main", { entry: move });
      expect([called.status, codeOf(called), errorOf(called).param]).toEqual([400, "secrets_needed", "entry.headers"]);
    }
    expect((await world.storage.channels.get("main"))?.entry["base_url"]).toBe(entry.base_url);
    expect((await call("PATCH", "/channels/main", { entry: { base_url, headers: { "x-key": "new" } } })).status).toBe(200);
    expect((await call("PATCH", "/channels/main", { entry: { base_url: entry.base_url, headers: null } })).status).toBe(200);
    expect((await world.storage.channels.get("main"))?.entry).toEqual(entry);
  });
});

/** What stands in the rows of channels. */
async function rowsOf({ storeFile }: AdminWorld): Promise<readonly string[]> {
  const database = new SqliteDatabase(storeFile);
  const rows = await database.all<{ readonly entry: string }>(sql`select entry from channels`);
  await database.close();
  return rows.map((row) => row.entry);
}

describe("a channel of the configuration file", () => {
  test("is shown, and a change is refused with the place where to make it", async () => {
    const { world, call, look, running } = await rig();
    running.push({ ...status, name: "filed", source: "file" });
    expect(shown(await look("/channels/filed"))).toMatchObject({
      source: "file",
      entry: null,
      secrets: [],
      created_at: null,
      models: ["fast"],
    });
    for (const [method, body] of [
      ["PATCH", { entry: { weight: 2 } }],
      ["DELETE", undefined],
    ] as const) {
      const called = await call(method, "/channels/filed", body);
      expect([called.status, codeOf(called)]).toEqual([409, "in_file"]);
      expect((called.json as ErrorBody).error.message).toContain("sluice.yaml, line 5: change it there");
    }
    // One of the store that was there first is hidden, and can still be removed.
    await world.storage.channels.create({ name: "filed", entry, sealed: "sealed", last4: ["abcd"] }, { kind: "cli", name: "tester" });
    const all = (await look("/channels")).json as { readonly channels: readonly ChannelView[] };
    expect(all.channels.map(({ name, source, secrets }) => [name, source, secrets])).toEqual([["filed", "file", []]]);
    expect((await call("DELETE", "/channels/filed")).status).toBe(200);
  });
});

describe("testing a channel", () => {
  test("S29: returns a status and a code of ours, and no text of the upstream", async () => {
    const hostile = "<script>alert(1)</script>";
    const outcomes: Readonly<Record<string, ChannelTest>> = {
      well: { ok: true, status: 200, code: "ok", tookMs: 12.4 },
      refused: { ok: false, status: 401, code: "unauthorized", tookMs: 3 },
      hostile: { ok: false, status: 99_999, code: hostile, tookMs: 1, body: hostile, detail: hostile } as ChannelTest,
    };
    const { world, call } = await rig({ test: async (name) => outcomes[name] ?? null });
    expect((await call("POST", "/channels/well/test", {})).json).toEqual({ ok: true, status: 200, code: "ok", took_ms: 12 });
    expect((await call("POST", "/channels/refused/test", {})).json).toMatchObject({ ok: false, status: 401, code: "unauthorized" });
    const tested = await call("POST", "/channels/hostile/test", {});
    expect(tested.json).toEqual({ ok: false, status: null, code: "unknown", took_ms: 1 });
    expect(tested.text).not.toContain("script");
    expect((await call("POST", "/channels/nobody/test", {})).status).toBe(404);
    await world.storage.channels.create({ name: "new", entry, sealed: null, last4: [] }, { kind: "cli", name: "tester" });
    expect(codeOf(await call("POST", "/channels/new/test", {}))).toBe("not_in_use");
    expect((await call("POST", "/channels/well/test", { url: "http://10.0.0.1" })).status).toBe(400);
  });

  test("makes real calls, shows what was written, heard and spoken, and writes into the audit log that it did", async () => {
    const one = { model: "m", ok: true, status: 200, tookMs: 5, outcome: "fine", text: null, audio: null };
    const audio = { type: "audio/mpeg", bytes: new Uint8Array([1, 2, 3]) };
    const made = [
      { ...one, operation: "chat" as const, text: "yes" },
      { ...one, operation: "speech" as const, audio },
    ];
    const wants: unknown[] = [];
    const { world, call } = await rig({
      call: async (name, wanted) => (wants.push(wanted), name === "well" ? made : name === "busy" ? "busy" : "absent"),
    });
    expect((await call("POST", "/channels/well/calls", { model: "m", operations: ["chat", "speech"] })).json).toEqual({
      calls: [
        { operation: "chat", model: "m", ok: true, status: 200, took_ms: 5, outcome: "fine", text: "yes", audio: null },
        {
          operation: "speech",
          model: "m",
          ok: true,
          status: 200,
          took_ms: 5,
          outcome: "fine",
          text: null,
          audio: { type: "audio/mpeg", base64: "AQID" },
        },
      ],
    });
    await call("POST", "/channels/well/calls", {});
    expect(wants).toEqual([
      { model: "m", operations: ["chat", "speech"] },
      { model: null, operations: null },
    ]);
    const notes = await world.storage.audit.list({
      action: "channel.test",
      subject: "well",
      actor: null,
      sinceMs: null,
      before: null,
      limit: 9,
    });
    expect(notes[0]?.detail).toEqual({ calls: ["chat", "speech"].map((operation) => ({ operation, model: "m", ok: true })) });
    expect(codeOf(await call("POST", "/channels/busy/calls", {}))).toBe("conflict");
    expect((await call("POST", "/channels/nobody/calls", {})).status).toBe(404);
    await world.storage.channels.create({ name: "new", entry, sealed: null, last4: [] }, { kind: "cli", name: "tester" });
    expect(codeOf(await call("POST", "/channels/new/calls", {}))).toBe("not_in_use");
    expect((await call("POST", "/channels/well/calls", { operations: ["everything"] })).status).toBe(400);
  });
});
