// Needs: quiet. It mostly waits for processes to start and to drain.
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { segmentFile, segmentsIn, slotFolders } from "../../src/store/journal/folder.ts";
import { sql } from "../../src/store/sql.ts";
import { SegmentReader } from "../../src/store/journal/reader.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat, openChat } from "../support/chat.ts";
import { waitedMs } from "../support/cpu.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { openKeys } from "../support/keys.ts";
import { numRuns } from "../support/properties.ts";
import { price, Receipts } from "../support/receipts.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(120_000);

const plainKey = "sk-plain-0123456789abcdef";
const meteredKey = "sk-metered-0123456789abcdef";
const folders: string[] = [];

afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-receipts-"));
  folders.push(folder);
  return folder;
}

function start(directory: string, upstream: Chaos, more: Readonly<Record<string, unknown>> = {}): Promise<Gateway> {
  return startGateway({
    directory,
    config: {
      keys: [
        { name: "plain", key: plainKey },
        { name: "metered", key: meteredKey, limits: { budget_usd: 1_000 } },
      ],
      channels: [{ name: "only", base_url: upstream.url, models: "*" }],
      prices: [{ model: "*", ...price }],
      server: { linger: "0ms" },
      ...more,
    },
  });
}

/** What clients of many lives of a gateway saw. */
class Clients {
  /** Every call that was begun, and those whose end was seen. */
  readonly begun = new Map<string, { readonly metered: boolean }>();
  readonly whole = new Set<string>();
  readonly broken = new Set<string>();
  private stopped = false;

  /** So many at once, each with one call after the other, until the gateway is gone. */
  async load(gateway: Gateway, count: number, onEnd: () => void): Promise<void> {
    this.stopped = false;
    await Promise.all(Array.from({ length: count }, (_, at) => this.work(gateway, at, onEnd)));
  }

  stop(): void {
    this.stopped = true;
  }

  private async work(gateway: Gateway, at: number, onEnd: () => void): Promise<void> {
    while (!this.stopped) {
      const id = `call-${this.begun.size}`;
      const metered = at % 2 === 0;
      const stream = at % 3 !== 0;
      this.begun.set(id, { metered });
      // One stream in ten breaks off, which its client is told.
      const model = stream && this.begun.size % 10 === 0 ? "fault:end-after@2" : "m";
      const body = { model, x_call: id, x_tokens: 8, x_pace_ms: at % 4 === 0 ? 10 : 0 };
      try {
        const call = await openChat(gateway, body, { stream, key: metered ? meteredKey : plainKey, headers: { "x-request-id": id } });
        const reply = await call.reply;
        const isWhole = reply.status === 200 && reply.response.endedCleanly && (stream ? reply.done : reply.finishReason === "stop");
        const isBroken = reply.response.endedCleanly && reply.error !== null && reply.status === 200;
        if (isWhole) this.whole.add(id);
        else if (isBroken) this.broken.add(id);
        if (isWhole || isBroken) onEnd();
      } catch {
        // It was killed before it took the connection.
      }
    }
  }
}

const lives = numRuns(6);

test(`F62: ${lives} x kill -9 under load: every answer whose end was seen has its receipt, nothing is counted twice, and a revoked key stays so`, async () => {
  await using upstream = await startChaos();
  const directory = await freshFolder();
  const clients = new Clients();
  const startsMs: number[] = [];
  let revokedToken = "";
  for (let life = 0; life < lives; life += 1) {
    const beganMs = performance.now();
    await using gateway = await start(directory, upstream);
    // What it waited for a processor is the machine's.
    startsMs.push(performance.now() - beganMs - (waitedMs(gateway.pid) ?? 0));
    if (life === 0) revokedToken = await revokedKey(gateway);
    const kill = (): void => {
      clients.stop();
      gateway.signal("SIGKILL");
    };
    // Half of them die in the moment in which somebody has seen an end, the others whenever it is.
    let ends = 0;
    const atEnd = life % 2 === 0 ? 1 + Math.floor(Math.random() * 60) : Infinity;
    const isLast = life === lives - 1;
    let timer = setTimeout(kill, isLast ? 30_000 : life % 2 === 0 ? 3_000 : 20 + Math.random() * 300);
    let isEnough = !isLast;
    await clients.load(gateway, 20 + life, () => {
      ends += 1;
      if (ends === atEnd) kill();
      // The last of them lives until there is enough to look at, which takes longer on a busy machine.
      if (isEnough || clients.whole.size <= 10 * lives || clients.broken.size === 0) return;
      isEnough = true;
      clearTimeout(timer);
      timer = setTimeout(kill, 20 + Math.random() * 300);
    });
    clearTimeout(timer);
  }
  await using gateway = await start(directory, upstream);
  await using receipts = await Receipts.open(directory);
  const seen = [...clients.whole, ...clients.broken];
  expect(clients.whole.size).toBeGreaterThan(10 * lives);
  expect(clients.broken.size).toBeGreaterThan(0);

  const kept = await receipts.ofCalls(seen);
  expect(kept.filter(({ state }) => state === "complete").map(({ requestId }) => requestId)).toEqual([...clients.whole]);
  expect(kept.filter(({ state }) => state === "interrupted").map(({ requestId }) => requestId)).toEqual([...clients.broken]);
  const all = await receipts.all();
  expect(new Set(all.map(({ requestId }) => requestId)).size).toBe(all.length);
  for (const { requestId } of all) expect(clients.begun.has(requestId)).toBe(true);

  // Who spends money is on record before anybody is asked: then a death leaves a call whose end is unknown, not none at all.
  const known = new Set(all.map(({ requestId }) => requestId));
  const spent = upstream.ledger.chats.flatMap(({ call }) => (call !== null && clients.begun.get(call)!.metered ? [call] : []));
  expect(spent.filter((call) => !known.has(call))).toEqual([]);
  const unknown = all.filter(({ state }) => state === "unknown");
  expect(unknown.length).toBeGreaterThan(lives);
  for (const receipt of unknown) {
    expect(receipt).toMatchObject({ estimated: true, costUncertain: true, partial: true, attempts: [] });
    expect(receipt.delivered.promptTokens).toBeGreaterThan(0);
    if (clients.begun.get(receipt.requestId)!.metered) expect(receipt.billedNanos).toBeGreaterThan(0);
  }

  await receipts.expectSumsToMatch();
  expect(await receipts.integrity()).toBe("ok");
  expect(Math.max(...startsMs)).toBeLessThan(slowed(2_000));

  expect((await chat(gateway, { model: "any" }, { key: revokedToken })).status).toBe(401);

  // Another start finds nothing more to do.
  await gateway.kill();
  await using again = await start(directory, upstream);
  expect((await receipts.all()).length).toBe(all.length);
  expect(again.running).toBe(true);
});

test("of calls under way at kill -9, one with a budget is on record as soon as its upstream is asked, and the others soon after", async () => {
  await using upstream = await startChaos();
  const directory = await freshFolder();
  const gateway = await start(directory, upstream);
  const body = { model: "m", x_tokens: 5, x_first_ms: 60_000 };
  const begin = (id: string, key: string): void =>
    void openChat(gateway, body, { key, headers: { "x-request-id": id } })
      .then(({ reply }) => reply)
      .catch(() => null);
  for (let call = 0; call < 10; call += 1) begin(`plain-${call}`, plainKey);
  await upstream.waitFor(({ chats }) => chats.length === 10);
  const [slot] = slotFolders(join(directory, "data", "journal"));
  const openings = (): number => {
    const reader = new SegmentReader(segmentFile(slot!, segmentsIn(slot!).at(-1)!));
    try {
      return reader.read(0, { receiptsMax: 1_000, finished: false, openings: true }).openings.length;
    } finally {
      reader.close();
    }
  };
  await eventually("they are written down", () => openings() === 10);
  begin("metered", meteredKey);
  await upstream.waitFor(({ chats }) => chats.length === 11);
  await gateway.kill();
  await using again = await start(directory, upstream);
  await using receipts = await Receipts.open(directory);
  const all = await receipts.ofCalls(["metered", ...Array.from({ length: 10 }, (_, at) => `plain-${at}`)]);
  expect(all.map(({ state }) => state)).toEqual(Array.from({ length: 11 }, () => "unknown"));
  expect(all[0]!.billedNanos).toBeGreaterThan(0);
  expect(all[1]!.billedNanos).toBeNull();
  expect(again.running).toBe(true);
});

test("a SIGTERM lets calls end, and what they cost is in the store when the process is gone", async () => {
  await using upstream = await startChaos();
  const directory = await freshFolder();
  await using gateway = await start(directory, upstream, { server: { linger: "0ms", drain: "6s" } });
  const calls = Array.from({ length: 30 }, (_, at) => ({
    id: `call-${at}`,
    body: { model: "m", x_tokens: 10, x_pace_ms: 20 },
    stream: at % 2 === 0,
  }));
  // One that outlasts the patience is told so, and written down as well.
  calls.push({ id: "call-endless", body: { model: "m", x_tokens: 1_000, x_pace_ms: 20 }, stream: true });
  const replies = await Promise.all(
    calls.map(({ id, body, stream }) => openChat(gateway, body, { key: plainKey, stream, headers: { "x-request-id": id } })),
  );
  await upstream.waitFor(({ chats }) => chats.length === calls.length);
  expect(await gateway.stop(10_000)).toBe(0);
  const ended = await Promise.all(replies.map(({ reply }) => reply));
  expect(ended.map(({ status }) => status)).toEqual(calls.map(() => 200));

  await using receipts = await Receipts.open(directory);
  const all = await receipts.ofCalls(
    calls.map(({ id }) => id),
    1,
  );
  expect(all.filter(({ state }) => state === "complete")).toHaveLength(30);
  expect(all.at(-1)).toMatchObject({
    requestId: "call-endless",
    state: "interrupted",
    error: "shutting_down",
    partial: true,
    estimated: true,
  });
  expect(all.at(-1)!.delivered.completionTokens).toBeGreaterThan(10);
  await receipts.expectSumsToMatch();

  // All that lies in the journal is known to be in the store.
  const positions = await receipts.database.all<{ readonly segment: number; readonly position: number }>(
    sql`select segment, position from journals`,
  );
  for (const slot of slotFolders(join(directory, "data", "journal"))) {
    for (const segment of segmentsIn(slot)) {
      expect(positions).toContainEqual({ segment, position: statSync(segmentFile(slot, segment)).size });
    }
  }
});

async function revokedKey(gateway: Gateway): Promise<string> {
  await using keys = await openKeys(gateway);
  const { id, token } = await keys.make({});
  await keys.revoke(id);
  return token;
}
