// Needs: quiet. It mostly waits for changes of keys to be noticed, which may take seconds.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { Database } from "bun:sqlite";
import net from "node:net";
import { join } from "node:path";
import OpenAI, { AuthenticationError } from "openai";
import { rawRequest, type RawResponse } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { newToken, openKeys, type Keys, type KeySpec, type MadeKey } from "../support/keys.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

let rig: Rig<"a" | "b" | "local">;
let keys: Keys;

beforeAll(async () => {
  rig = await setUp(
    {
      a: { models: ["plain", "plain-mini", "other"], tags: ["fast"] },
      b: { models: ["plain", "only-b"], tier: 2 },
      local: { models: ["house"], tags: ["inside"] },
    },
    { prices: [{ model: "plain", input: 0, output: 1 }] },
  );
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

function get(path: string, token: string): Promise<RawResponse> {
  return rawRequest(rig.gateway.url, { path, headers: { Authorization: `Bearer ${token}` } });
}

async function statusOf(token: string, model = "plain"): Promise<number> {
  return (await rig.chat({ model }, { key: token })).status;
}

async function modelsOf(token: string): Promise<readonly string[]> {
  const list = (await get("/v1/models", token)).json() as { readonly data: readonly { readonly id: string }[] };
  return list.data.map(({ id }) => id).toSorted();
}

/** Made, and seen by the gateway. */
async function used(given: KeySpec = {}): Promise<MadeKey> {
  const key = await keys.make(given);
  expect(await statusOf(key.token)).toBe(200);
  return key;
}

/** All that a client could compare, apart from what names the request and the second. */
function seen(response: RawResponse): unknown {
  const id = response.header("x-request-id") ?? "";
  const headers = response.headers.filter(([name]) => !/^(x-request-id|date)$/i.test(name));
  return { status: response.status, headers, text: response.text.replaceAll(id, "…") };
}

/** Asks now and then: each wrong answer on the way is a failure of this address, and those are counted. */
async function opens(token: string, withinMs: number): Promise<void> {
  const untilMs = performance.now() + withinMs;
  while ((await statusOf(token)) !== 200) {
    if (performance.now() > untilMs) throw new Error(`the key does not open within ${withinMs} ms`);
    await Bun.sleep(150);
  }
}

const revokedWithinMs = 5_000;

describe("a key of the store", () => {
  test("works as soon as it is created", async () => {
    const { token } = await keys.make();
    expect(await statusOf(token)).toBe(200);
  });

  test("works within a second even if it was tried before it was created", async () => {
    const { token, publicId } = newToken();
    expect(await statusOf(token)).toBe(401);
    const mark = keys.mark(token);
    const { key } = (await keys.store.storage.keys.byDigest(keys.mark((await keys.make()).token).digest))!;
    await keys.store.storage.keys.create(publicId, { ...key, name: "tried-before" }, mark, { kind: "cli", name: "tester" });
    await opens(token, 1_500);
  });

  test("that was imported works like any other", async () => {
    const { token } = await keys.bring("brought-along-0123456789-abcdefghijkl");
    expect(await statusOf(token)).toBe(200);
    const client = new OpenAI({ apiKey: token, baseURL: `${rig.gateway.url}/v1`, maxRetries: 0 });
    const answer = await client.chat.completions.create({ model: "plain", messages: [{ role: "user", content: "hi" }] });
    expect(answer.choices[0]?.finish_reason).toBe("stop");
  });

  test("is named by its id in the access log and on the receipt, and its token is in neither", async () => {
    const { token, id } = await keys.make();
    const { requestId } = await rig.chat({ model: "plain" }, { key: token });
    expect(await rig.accessLine(requestId)).toMatchObject({ key: id, status: 200 });
    expect(await keys.receipt(requestId)).toMatchObject({ keyId: id, state: "complete", model: "plain" });
    expect(rig.gateway.text).not.toContain(token);
  });
});

describe.concurrent("rotation", () => {
  test("lets both tokens in until the overlap ends, and then only the new one", async () => {
    const { id, token } = await used();
    const next = await keys.rotate(id, 2_000);
    const endsMs = performance.now() + 2_000;
    expect([await statusOf(token), await statusOf(next)]).toEqual([200, 200]);
    await eventually("the old token is refused", async () => (await statusOf(token)) === 401, 5_000);
    // It must not have ended before its time; a little is allowed for the two clocks.
    expect(performance.now()).toBeGreaterThan(endsMs - 100);
    expect(await statusOf(next)).toBe(200);
  });

  test("without an overlap ends the old token within 5 s", async () => {
    const { id, token } = await used();
    const next = await keys.rotate(id, 0);
    await eventually("the old token is refused", async () => (await statusOf(token)) === 401, revokedWithinMs);
    expect(await statusOf(next)).toBe(200);
  });

  test("leaves a running stream alone", async () => {
    const { id, token } = await used();
    const call = await rig.open({ model: "plain", x_tokens: 40, x_pace_ms: 50 }, { key: token, stream: true });
    await call.untilBody(1);
    await keys.rotate(id, 0);
    expect(await call.reply).toMatchObject({ done: true, error: null });
  });
});

describe.concurrent("revocation", () => {
  test("refuses new calls within 5 s, as if the key had never been", async () => {
    const { id, token } = await used();
    const unknown = seen(await get("/v1/models", newToken().token));
    await keys.revoke(id);
    await eventually("new calls are refused", async () => (await statusOf(token)) === 401, revokedWithinMs);
    expect(seen(await get("/v1/models", token))).toEqual(unknown);
    const client = new OpenAI({ apiKey: token, baseURL: `${rig.gateway.url}/v1`, maxRetries: 0 });
    const refused: unknown = await client.models.list().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(AuthenticationError);
  });

  test("ends a running stream in-band within 5 s, with a receipt that says so and bills what was made", async () => {
    const { id, token } = await used();
    const call = await rig.open({ model: "plain", x_tokens: 2_000, x_pace_ms: 20 }, { key: token, stream: true, timeoutMs: 15_000 });
    await call.untilBody(500);
    const fromMs = performance.now();
    await keys.revoke(id);
    const reply = await call.reply;
    expect(performance.now() - fromMs).toBeLessThan(slowed(revokedWithinMs));
    expect(reply).toMatchObject({ status: 200, done: false, finishReason: null, error: { code: "key_revoked" } });
    const receipt = await keys.receipt(reply.requestId);
    expect(receipt).toMatchObject({ keyId: id, state: "interrupted", error: "key_revoked", partial: true });
    expect(receipt.delivered.completionTokens).toBeGreaterThan(10);
    const [attempt] = rig.upstream.a.ledger.ofCall(call.call ?? "");
    expect(attempt?.endedBy).toBe("client_closed");
  });

  test("ends a call that waits for its whole answer", async () => {
    const { id, token } = await used();
    const call = await rig.open({ model: "plain", x_first_ms: 12_000 }, { key: token, timeoutMs: 15_000 });
    await rig.upstream.a.waitFor((ledger) => ledger.ofCall(call.call ?? "").length === 1);
    const fromMs = performance.now();
    await keys.revoke(id);
    const reply = await call.reply;
    expect(performance.now() - fromMs).toBeLessThan(slowed(revokedWithinMs));
    expect(reply).toMatchObject({ status: 401, error: { code: "key_revoked" } });
    expect(await keys.receipt(reply.requestId)).toMatchObject({ state: "failed", error: "key_revoked" });
  });

  test("ends a call whose body is still on its way", async () => {
    const { id, token } = await used();
    const body = JSON.stringify({ model: "plain", messages: [{ role: "user", content: "x".repeat(5_000) }] });
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}`, "Content-Length": String(body.length) };
    const sent = rawRequest(`${rig.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: body.slice(0, 100),
      timeoutMs: 15_000,
    });
    // Long enough for its head to be read.
    await Bun.sleep(Math.min(slowed(100), 3_000));
    const fromMs = performance.now();
    await keys.revoke(id);
    const response = await sent;
    expect(performance.now() - fromMs).toBeLessThan(slowed(revokedWithinMs));
    expect(response.status).toBe(401);
    expect(response.text).toContain("key_revoked");
    expect(response.header("connection")).toBe("close");
    expect(await rig.accessLine(response.header("x-request-id"))).toMatchObject({ key: id, error: "key_revoked", attempts: 0 });
  });

  test("of one key leaves the streams of another alone", async () => {
    const [one, other] = [await used(), await used()];
    const call = await rig.open({ model: "plain", x_tokens: 50, x_pace_ms: 50 }, { key: other.token, stream: true });
    await call.untilBody(1);
    await keys.revoke(one.id);
    await eventually("the one is refused", async () => (await statusOf(one.token)) === 401, revokedWithinMs);
    expect(await call.reply).toMatchObject({ done: true, error: null });
  });
});

describe.concurrent("expiry", () => {
  test("is looked at when a call begins, and a stream that runs may finish", async () => {
    const { token, id } = await keys.make({ expiresMs: Date.now() + 1_500 });
    const call = await rig.open({ model: "plain", x_tokens: 50, x_pace_ms: 50 }, { key: token, stream: true });
    await call.untilBody(1);
    await eventually("new calls are refused", async () => (await statusOf(token)) === 401, 4_000);
    const reply = await call.reply;
    expect(reply).toMatchObject({ done: true, error: null });
    expect(await keys.receipt(reply.requestId)).toMatchObject({ keyId: id, state: "complete" });
  });

  test("can be put off", async () => {
    const { token, id } = await keys.make({ expiresMs: Date.now() - 1_000 });
    expect(await statusOf(token)).toBe(401);
    await keys.store.storage.keys.change(id, { expiresMs: Date.now() + 60_000 }, { kind: "cli", name: "tester" });
    await opens(token, 2_000);
  });
});

describe("scopes", () => {
  test("models are named or fit a pattern; any other is refused, and not listed", async () => {
    const { token } = await keys.make({ models: ["plain*", "house"] });
    expect([await statusOf(token, "plain"), await statusOf(token, "plain-mini"), await statusOf(token, "house")]).toEqual([200, 200, 200]);
    expect(await rig.chat({ model: "other" }, { key: token })).toMatchObject({ status: 403, error: { code: "model_not_allowed" } });
    expect(await modelsOf(token)).toEqual(["house", "plain", "plain-mini"]);
    expect((await get("/v1/models/other", token)).status).toBe(404);
  });

  test("operations that are not named are refused before the body is read", async () => {
    const { token } = await keys.make({ operations: ["speech"] });
    expect(await rig.chat({ model: "plain" }, { key: token })).toMatchObject({ status: 403, error: { code: "operation_not_allowed" } });
    const speech = await rawRequest(`${rig.gateway.url}/v1/audio/speech`, {
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
      body: JSON.stringify({ model: "plain", input: "Hello.", voice: "alloy", response_format: "pcm" }),
    });
    expect(speech.status).toBe(200);
  });

  test("channels bind by name or tag: a model that only others serve is refused with 403 and not listed", async () => {
    const [named, tagged] = [await keys.make({ channels: ["b"] }), await keys.make({ channels: ["ins*", "fast"] })];
    expect(await rig.chat({ model: "plain" }, { key: named.token })).toMatchObject({ status: 200, channel: "b" });
    expect(await rig.chat({ model: "house" }, { key: tagged.token })).toMatchObject({ status: 200, channel: "local" });
    expect(await rig.chat({ model: "plain" }, { key: tagged.token })).toMatchObject({ status: 200, channel: "a" });
    expect(await rig.chat({ model: "only-b" }, { key: tagged.token })).toMatchObject({ status: 403, error: { code: "model_not_allowed" } });
    expect(await rig.chat({ model: "house" }, { key: named.token })).toMatchObject({ status: 403, error: { code: "model_not_allowed" } });
    expect(await modelsOf(named.token)).toEqual(["only-b", "plain"]);
    expect(await modelsOf(tagged.token)).toEqual(["house", "other", "plain", "plain-mini"]);
    expect((await get("/v1/models/only-b", tagged.token)).status).toBe(404);
  });

  test("a channel that fails is not replaced by one the key is not bound to", async () => {
    const { token } = await keys.make({ channels: ["fast"] });
    rig.upstream.a.script(["fault:status@500", "fault:status@500", "fault:status@500"]);
    const reply = await rig.chat({ model: "other" }, { key: token });
    expect(new Set(rig.path(reply))).toEqual(new Set(["a"]));
  });

  test("that change hold within a few seconds", async () => {
    const { token, id } = await used();
    await keys.store.storage.keys.change(id, { models: ["house"] }, { kind: "cli", name: "tester" });
    await eventually("the new scope holds", async () => (await statusOf(token)) === 403, revokedWithinMs);
    expect(await statusOf(token, "house")).toBe(200);
  });
});

describe("S03, S05: what is nearly a key", () => {
  test("is answered exactly as one that never was, also while the real one is remembered", async () => {
    const { token } = await used();
    const unknown = seen(await get("/v1/models", newToken().token));
    expect(unknown).toMatchObject({ status: 401 });
    const flipped = token.slice(0, 25) + (token[25] === "a" ? "b" : "a") + token.slice(26);
    const checksum = token.slice(0, -1) + (token.endsWith("0") ? "1" : "0");
    const otherSecret = token.slice(0, 19) + newToken().token.slice(19);
    for (const wrong of [flipped, token.slice(0, -1), `${token}0`, checksum, otherSecret, token.toLowerCase(), ` ${token}x`]) {
      expect(seen(await get("/v1/models", wrong))).toEqual(unknown);
    }
    expect(await statusOf(token)).toBe(200);
  });

  test("S07: two credentials that differ are refused, and neither is used", async () => {
    const [one, other] = [await used(), await used()];
    const ask = (headers: readonly (readonly [string, string])[]) => rawRequest(`${rig.gateway.url}/v1/models`, { headers });
    const twice = await ask([
      ["Authorization", `Bearer ${one.token}`],
      ["Authorization", `Bearer ${other.token}`],
    ]);
    const both = await ask([
      ["Authorization", `Bearer ${one.token}`],
      ["x-api-key", other.token],
    ]);
    for (const { status, text } of [twice, both]) {
      expect(status).toBe(400);
      expect(text).toContain("ambiguous_credentials");
    }
  });

  test("S48: an admin token is rejected here", async () => {
    const { token } = makeAdminToken();
    await keys.store.storage.accounts.createToken({ name: "machine", role: "admin", mark: keys.mark(token) }, { kind: "cli", name: "t" });
    expect((await get("/v1/models", token)).status).toBe(401);
  });
});

describe("a failing store", () => {
  test("F60: a damaged row is a 500 for its key, with the reason in the log, and nobody else notices", async () => {
    const { token, id } = await keys.make();
    const raw = openStore(rig);
    raw.run('update keys set limits = \'{"requests": "many"}\' where id = ?', [id]);
    raw.close();
    const reply = await rig.chat({ model: "plain" }, { key: token });
    expect(reply).toMatchObject({ status: 500, error: { code: "internal_error" } });
    expect(reply.response.text).not.toContain(id);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ error: "internal", detail: expect.stringContaining(id) as string });
    expect((await get("/v1/models", token)).status).toBe(500);
    expect(await statusOf((await keys.make()).token)).toBe(200);
    expect(await statusOf(clientKey)).toBe(200);
  });

  test("with another schema does not make a key invalid, and recovers", async () => {
    const known = await used();
    const fresh = await keys.make();
    const raw = openStore(rig);
    raw.run("alter table key_tokens rename to key_tokens_away");
    try {
      expect(await rig.chat({ model: "plain" }, { key: fresh.token })).toMatchObject({ status: 500, error: { code: "internal_error" } });
      expect(await statusOf(known.token)).toBe(200);
    } finally {
      raw.run("alter table key_tokens_away rename to key_tokens");
      raw.close();
    }
    await eventually("the new key is served", async () => (await statusOf(fresh.token)) === 200);
  });

  test("whose file another process holds for seconds: known keys and new ones are served as ever, and those that must write when they can", async () => {
    const known = await used();
    const fresh = await keys.make();
    const budgeted = await keys.make({ limits: { budget_usd: 1 } });
    const another = await keys.make({ limits: { budget_usd: 1 } });
    const holder = openStore(rig);
    holder.run("begin exclusive");
    const ask = async (token: string): Promise<readonly [number, string | null, number]> => {
      const fromMs = performance.now();
      const { status, error } = await rig.chat({ model: "plain" }, { key: token });
      return [status, error?.code ?? null, performance.now() - fromMs];
    };
    try {
      // Those with a budget have to write before they are served. They wait on the thread that also looks up keys.
      const spending = [ask(budgeted.token), ask(another.token)];
      const [served, late] = await Promise.all([ask(known.token), Bun.sleep(100).then(() => ask(fresh.token))]);
      for (const [status, code, tookMs] of [served, late]) {
        expect([status, code]).toEqual([200, null]);
        expect(tookMs).toBeLessThan(slowed(1_500));
      }
      // Longer than calls wait for a store that fails, and than SQLite waits for another writer.
      await Bun.sleep(5_500);
      holder.run("rollback");
      for (const [status, code, tookMs] of await Promise.all(spending)) {
        expect([status, code]).toEqual([200, null]);
        expect(tookMs).toBeGreaterThan(5_000);
      }
    } finally {
      holder.close();
    }
  });
});

describe("S06: ten thousand guesses", () => {
  test("are slowed down by address after thirty, cost little memory, and do not lock out clients with a valid key", async () => {
    await using own = await setUp({ a: { models: ["plain"] } });
    await using ownKeys = await openKeys(own.gateway);
    const known = await ownKeys.make();
    expect((await own.chat({ model: "plain" }, { key: known.token })).status).toBe(200);
    const warmUp = await guess(own, 200);
    const before = own.gateway.rss();
    const guessing = guess(own, 10_000);
    const during: number[] = [];
    for (let call = 0; call < 5; call++) {
      const fresh = await ownKeys.make();
      during.push((await own.chat({ model: "plain" }, { key: fresh.token })).status);
      during.push((await own.chat({ model: "plain" }, { key: known.token })).status);
    }
    expect(during).toEqual(Array.from({ length: 10 }, () => 200));
    const counts = await guessing;
    const all = new Map([...warmUp].map(([status, count]) => [status, count + (counts.get(status) ?? 0)]));
    expect(new Set(all.keys())).toEqual(new Set([401, 429]));
    expect(all.get(401)! + all.get(429)!).toBe(10_200);
    // Thirty, and one more for each two seconds that it takes.
    expect(all.get(401)).toBeLessThanOrEqual(45);
    const after = own.gateway.rss();
    if (before !== null && after !== null) expect(after - before).toBeLessThan(100 * 1024 * 1024);
  });
});

/** Sends so many made-up keys over some connections, and counts the answers by status. */
async function guess({ gateway }: { readonly gateway: { readonly url: string } }, count: number): Promise<ReadonlyMap<number, number>> {
  const { hostname, port } = new URL(gateway.url);
  const counts = new Map<number, number>();
  let left = count;
  const line = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = net.connect({ host: hostname, port: Number(port) });
      const ask = (): void => {
        if (left === 0) {
          socket.destroy();
          resolve();
          return;
        }
        left -= 1;
        socket.write(`GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${newToken().token}\r\n\r\n`);
      };
      socket.on("connect", ask);
      socket.on("error", reject);
      // Refusals are short: each comes in one piece.
      socket.on("data", (bytes: Buffer) => {
        const status = Number(bytes.toString("latin1").slice(9, 12));
        counts.set(status, (counts.get(status) ?? 0) + 1);
        ask();
      });
    });
  await Promise.all(Array.from({ length: 20 }, line));
  return counts;
}

/** The gateway writes to its store meanwhile, so that a statement may have to wait for it. */
function openStore(owner: Parameters<typeof storeOf>[0]): Database {
  const store = new Database(storeOf(owner));
  store.run("pragma busy_timeout = 30000");
  return store;
}

function storeOf({ gateway }: { readonly gateway: { readonly directory: string } }): string {
  return join(gateway.directory, "data", "sluice.db");
}

function makeAdminToken(): { readonly token: string } {
  return { token: newToken().token.replace("sk-gw_", "sk-gwa_") };
}
