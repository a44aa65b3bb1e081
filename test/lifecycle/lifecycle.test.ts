// Needs: quiet. Its times are of seconds, and most of them pass while streams drain.
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { constants, existsSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, open, rename, rm, writeFile, type FileHandle } from "node:fs/promises";
import { constants as system, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { header } from "../support/chaos/request.ts";
import { chat, openChat, RawConnection, rawRequest, type ChatReply } from "../support/client.ts";
import { collected, collects } from "../support/collected.ts";
import { eventually } from "../support/eventually.ts";
import { openKeys } from "../support/keys.ts";
import { startGateway, type Gateway, type LogLine } from "../support/gateway.ts";
import { product } from "../support/product.ts";
import { freePort } from "../support/servers/guarded.ts";
import { clientKey, setUp, upstreamKey, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

function reloads(gateway: Gateway): number {
  return gateway.logs.filter(({ event }) => event === "reloaded").length;
}

/** Calls one after another on several connections until `during` is over. */
async function underLoad(gateway: Gateway, during: (replies: readonly ChatReply[]) => Promise<void>): Promise<readonly ChatReply[]> {
  const replies: ChatReply[] = [];
  let over = false;
  const client = async (at: number): Promise<void> => {
    while (!over)
      replies.push(await chat(gateway, { model: "chaos", x_tokens: 10, x_pace_ms: at }, { key: clientKey, stream: at % 2 === 0 }));
  };
  const clients = Array.from({ length: 6 }, (_, at) => client(at));
  try {
    await during(replies);
  } finally {
    over = true;
    await Promise.all(clients);
  }
  return replies;
}

function failures(replies: readonly ChatReply[]): readonly unknown[] {
  return replies
    .filter(({ status, error, finishReason }) => status !== 200 || error !== null || finishReason !== "stop")
    .map(({ status, error }) => [status, error]);
}

test("F64: after many reloads only one configuration stays in memory once older calls have ended", async () => {
  await using rig = await setUp({ a: { models: ["chaos"] } }, {}, { env: collects });
  const { gateway } = rig;
  // Large enough that one more or less is seen among all objects of the process.
  const configured = (round: number): readonly string[] => ["chaos", ...Array.from({ length: 2_000 }, (_, at) => `m-${round}-${at}`)];
  const reload = async (round: number): Promise<void> => {
    const before = reloads(gateway);
    // Noticed by the gateway itself: a signal would read the file twice, and objects would be counted while that is under way.
    await gateway.rewriteConfig({ ...rig.config, channels: [{ ...rig.config.channels[0], models: configured(round) }] });
    await eventually("reloaded", () => reloads(gateway) > before);
  };
  const objects = async (): Promise<number> => (await collected(gateway)).objects;
  const withSmallOne = await objectsAtRest(objects);
  await reload(0);
  const large = (await objects()) - withSmallOne;
  expect(large).toBeGreaterThan(2_000);
  // What a timer, a word on the stack or the caches of compiled code still point to is let go of by a later collection, and code is
  // thrown away fifteen seconds after it last ran; what is kept for good never is.
  const fallsTo = (count: number): Promise<void> =>
    eventually(`${count} configurations are left`, async () => (await objects()) - withSmallOne < (count + 0.5) * large, 60_000);

  const call = await rig.open({ model: "chaos", x_tokens: 100_000, x_pace_ms: 20 }, { stream: true, timeoutMs: 60_000 });
  await call.untilBody(200);
  for (let round = 1; round < 24; round += 1) await reload(round);
  // The newest, and the one that the call began with.
  await fallsTo(2);

  call.abort();
  await rig.accessLine((await call.reply).requestId);
  await fallsTo(1);
}, 150_000);

/** What the start leaves behind is let go of about a second later: the count is taken when it falls no more. */
async function objectsAtRest(objects: () => Promise<number>): Promise<number> {
  let least = Infinity;
  let sinceMs = performance.now();
  while (performance.now() - sinceMs < 2_000) {
    const count = await objects();
    if (count < least - 500) sinceMs = performance.now();
    least = Math.min(least, count);
    await Bun.sleep(250);
  }
  return least;
}

describe("a reload", () => {
  let rig: Rig<"a" | "b">;

  beforeAll(async () => {
    rig = await setUp({ a: { models: ["chaos", "only-a"] }, b: { models: ["chaos"] } }, { server: { linger: "0ms" } }, { env: collects });
  });

  afterAll(async () => {
    await rig[Symbol.asyncDispose]();
  });

  /** The configuration with some of it changed. */
  function changed(more: Record<string, unknown>): Record<string, unknown> {
    return { ...rig.config, ...more };
  }

  function models(): Promise<string> {
    return rawRequest(`${rig.gateway.url}/v1/models`, { headers: { Authorization: `Bearer ${clientKey}` } }).then(({ text }) => text);
  }

  test("F64: a storm of a hundred of them fails no request", async () => {
    let storms = 0;
    const replies = await underLoad(rig.gateway, async (so) => {
      for (; storms < 100; storms += 1) {
        rig.gateway.signal("SIGHUP");
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      await eventually("the last of them is done", () => reloads(rig.gateway) > 10 && so.length > 50, 20_000);
    });
    expect(failures(replies)).toEqual([]);
    await rig.check({ calls: replies.length });
  });

  test("happens by itself when the file changes, and fails no request", async () => {
    const [a, b] = rig.config.channels;
    const replies = await underLoad(rig.gateway, async () => {
      for (let round = 0; round < 4; round += 1) {
        const channels = round % 2 === 0 ? [a, b, { ...b, name: "new", models: ["brand-new"] }] : rig.config.channels;
        await rig.gateway.rewriteConfig(changed({ channels }));
        await eventually("reloaded", async () => (await models()).includes("brand-new") === (round % 2 === 0));
      }
    });
    expect(failures(replies)).toEqual([]);
    await rig.check({ calls: replies.length });
  });

  test("shows its version in the log and in readiness, and only when something changed", async () => {
    const version = async () => ((await rawRequest(`${rig.gateway.url}/readyz`)).json() as { readonly config: string }).config;
    const before = await version();
    const count = reloads(rig.gateway);
    rig.gateway.signal("SIGHUP");
    await eventually("reloaded", () => reloads(rig.gateway) > count);
    expect(await version()).toBe(before);
    await rig.gateway.rewriteConfig(changed({ expose: "none" }));
    await eventually("reloaded", async () => (await version()) !== before);
    const now = await version();
    await eventually("it is told", () => rig.gateway.logs.findLast(({ event }) => event === "reloaded")?.["config"] === now);
    const hidden = await rig.chat();
    expect([hidden.status, hidden.channel, hidden.response.header("x-sluice-attempts")]).toEqual([200, null, null]);
    await rig.gateway.rewriteConfig(rig.config);
    await eventually("reloaded", async () => (await version()) === before);
    await rig.check();
  });

  test.each([
    ["that cannot be read as YAML", "listen: [", /sluice\.yaml:1: the bracket \[ of this line is not closed/],
    ["with an unknown setting", () => JSON.stringify(changed({ listne: "127.0.0.1:1" })), /listne/],
    [
      "with a variable that is not set",
      () => JSON.stringify(changed({ keys: [{ name: "x", key: "${NO_SUCH_VARIABLE}" }] })),
      /NO_SUCH_VARIABLE/,
    ],
    [
      "with an address it may not have",
      () => JSON.stringify(changed({ channels: [{ name: "evil", base_url: "http://169.254.169.254/v1" }] })),
      /base_url/,
    ],
  ])("F65: of a file %s keeps the old configuration and says why", async (_, text, reason) => {
    const before = await models();
    const complaints = () => rig.gateway.logs.filter(({ event }) => event === "reload_failed");
    const count = complaints().length;
    await rig.gateway.rewriteConfig(typeof text === "string" ? text : text());
    await eventually("it is refused", () => complaints().length > count);
    const line = complaints().at(-1)!;
    expect(JSON.stringify(line["problems"])).toMatch(reason);
    expect(line).toMatchObject({ level: "error", detail: expect.stringContaining("old configuration") });
    expect([await models(), (await rig.chat()).status]).toEqual([before, 200]);
    const done = reloads(rig.gateway);
    await rig.gateway.rewriteConfig(rig.config);
    await eventually("reloaded", () => reloads(rig.gateway) > done);
    await rig.check();
  });

  // A key that is taken out of the file is revoked, and its streams end: reload-revocation.test.ts.
  test("does not affect a running stream, even if it removes its channel", async () => {
    const { a, b } = rig.upstream;
    a.script(["fault:held-after@3"]);
    const call = await rig.open({ model: "only-a", x_tokens: 40 }, { stream: true });
    await call.untilBody(300);
    const before = reloads(rig.gateway);
    const otherKey = "sk-other-canary-0123456789abcdef";
    await rig.gateway.rewriteConfig(
      changed({
        channels: rig.config.channels.filter(({ name }) => name !== "a"),
        keys: [
          { name: "tester", key: clientKey },
          { name: "other", key: otherKey },
        ],
      }),
    );
    await eventually("reloaded", () => reloads(rig.gateway) > before);
    expect(call.response.endedCleanly).toBe(false);

    const [unknown, known] = [
      await chat(rig.gateway, { model: "only-a" }, { key: otherKey }),
      await chat(rig.gateway, {}, { key: otherKey }),
    ];
    expect([unknown.status, known.status, known.channel]).toEqual([404, 200, "b"]);
    a.release();
    const reply = await call.reply;
    expect([reply.done, reply.finishReason, reply.content]).toEqual([
      true,
      "stop",
      a.ledger.ofCall(call.call ?? "")[0]!.tokensSent.join(""),
    ]);
    expect(b.ledger.ofCall(call.call ?? "").length).toBe(0);

    await rig.gateway.rewriteConfig(rig.config);
    await eventually("reloaded", () => reloads(rig.gateway) > before + 1);
    await rig.check({ calls: 3 });
  });

  test("lets a running call fail over to a removed channel, with the credential it had", async () => {
    const { a, b } = rig.upstream;
    for (const upstream of [a, b]) upstream.behaviour = "fault:held+status@500";
    const call = await rig.open();
    await eventually("somebody is asked", () => rig.path(call).length > 0);
    for (const upstream of [a, b]) upstream.behaviour = null;
    const other = rig.path(call)[0] === "a" ? b : a;
    const before = reloads(rig.gateway);
    await rig.gateway.rewriteConfig(changed({ channels: rig.config.channels.filter(({ name }) => name !== other.name) }));
    await eventually("reloaded", () => reloads(rig.gateway) > before);
    for (const upstream of [a, b]) upstream.release();
    const reply = await call.reply;
    expect([reply.status, reply.channel]).toEqual([200, other.name]);
    expect(header(other.ledger.ofCall(call.call ?? "")[0]!, "authorization")).toBe(`Bearer ${upstreamKey(other.name)}`);
    await rig.gateway.rewriteConfig(rig.config);
    await eventually("reloaded", () => reloads(rig.gateway) > before + 1);
    await rig.check();
  });

  test("from a slow file delays no call", async () => {
    const file = join(rig.gateway.directory, "sluice.yaml");
    expect(Bun.spawnSync(["mkfifo", `${file}.slow`]).exitCode).toBe(0);
    const before = reloads(rig.gateway);
    await rename(`${file}.slow`, file);
    // Such a pipe can be opened for writing as soon as somebody reads from it.
    let slow: FileHandle | null = null;
    await eventually("it is being read", async () => {
      slow = await open(file, constants.O_WRONLY | constants.O_NONBLOCK).catch(() => null);
      return slow !== null;
    });
    expect((await rig.chat()).status).toBe(200);
    expect(reloads(rig.gateway)).toBe(before);
    await rig.gateway.rewriteConfig(rig.config);
    await (slow as FileHandle | null)?.write(JSON.stringify(rig.config));
    await (slow as FileHandle | null)?.close();
    await eventually("reloaded", () => reloads(rig.gateway) > before);
    expect((await rig.chat()).status).toBe(200);
    await rig.check();
  });

  test("that changes the address says that a restart is needed, applies the rest, and says nothing when it is taken back", async () => {
    const { gateway } = rig;
    // No other test changes the format of the log.
    const warnings = () => gateway.logs.filter(({ event, detail }) => event === "restart_needed" && /log\.format/.test(String(detail)));
    await gateway.rewriteConfig(changed({ listen: "127.0.0.1:1", log: { format: "json" } }));
    await eventually("it says so", () => warnings().length > 0);
    const since = () => gateway.logs.slice(gateway.logs.indexOf(warnings()[0]!));
    const reloaded = () => since().filter(({ event }) => event === "reloaded").length;
    await eventually("reloaded", () => reloaded() === 1);
    expect(gateway.logs.some(({ event, detail }) => event === "restart_needed" && /`listen`/.test(String(detail)))).toBe(true);
    expect((await rig.chat()).status).toBe(200);
    await gateway.rewriteConfig(rig.config);
    await eventually("reloaded again", () => reloaded() === 2);
    expect(warnings().length).toBe(1);
    await rig.check();
  });
});

test("a change of the file is in the audit log once, with what changed from what to what: after a reload, and after a start", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const secret = "sk-of-a-client-canary-0123456789";
  const file = {
    channels: [{ name: "a", provider: "ollama", models: ["chaos"] }],
    groups: [{ name: "web", kind: "team" }],
    keys: [
      { name: "laptop", key: secret, limits: { rpm: 5 } },
      { name: "old", key: `${secret}-old` },
    ],
  };
  const changed = {
    ...file,
    groups: [{ name: "web", kind: "team", frozen: true }],
    keys: [
      { name: "laptop", key: `${secret}-new`, limits: { rpm: 5 } },
      { name: "new", key: `${secret}-old` },
    ],
    routing: { attempts: 3 },
  };
  const recorded = async (): Promise<readonly unknown[]> => {
    await using keys = await openKeys({ directory });
    const query = { action: "config.reload", subject: null, actor: null, sinceMs: null, before: null, limit: 9 };
    const entries = await keys.store.storage.audit.list(query);
    expect(JSON.stringify(entries)).not.toContain("canary");
    return entries.map(({ detail, actor }) => [actor.kind, detail]);
  };
  const first = [
    "gateway",
    {
      added: ["keys.new", "routing"],
      changed: { "groups.web.frozen": { from: null, to: true }, "keys.laptop.key": "changed" },
      removed: ["keys.old"],
    },
  ];
  const again = ["gateway", { changed: { "groups.web.frozen": { from: true, to: null } } }];
  try {
    {
      await using gateway = await startGateway({ config: file, directory });
      expect(await recorded()).toEqual([]);
      await gateway.rewriteConfig(changed);
      await eventually("it is recorded", async () => (await recorded()).length === 1);
      const before = reloads(gateway);
      gateway.signal("SIGHUP");
      await eventually("reloaded", () => reloads(gateway) > before);
      expect(await recorded()).toEqual([first]);
    }
    {
      await using gateway = await startGateway({ config: changed, directory });
      expect(gateway.running).toBe(true);
    }
    await using gateway = await startGateway({ config: { ...changed, groups: file.groups }, directory });
    await eventually("it is recorded", async () => (await recorded()).length > 1);
    expect(await recorded()).toEqual([again, first]);
    expect(gateway.running).toBe(true);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

describe("the end", () => {
  function readiness(gateway: Gateway): Promise<number> {
    return rawRequest(`${gateway.url}/readyz`).then(({ status }) => status);
  }

  test("F63: SIGTERM turns readiness off at once, accepts for a while, lets streams finish, and exits with 0", async () => {
    await using rig = await setUp({ a: {} }, { server: { linger: "2s", drain: "10s" } });
    const { gateway } = rig;
    expect([(await rawRequest(`${gateway.url}/readyz`)).status, (await rawRequest(`${gateway.url}/readyz`)).json()]).toMatchObject([
      200,
      { status: "ready" },
    ]);
    const long = await Promise.all(
      Array.from({ length: 10 }, (_, at) => rig.open({ x_tokens: 120, x_pace_ms: 25 }, { stream: at % 2 === 0, timeoutMs: 20_000 })),
    );
    await rig.upstream.a.waitFor(({ chats }) => chats.length === 10);
    const signalledAt = performance.now();
    gateway.signal("SIGTERM");
    await eventually("readiness is withdrawn", async () => (await readiness(gateway)) === 503, 1_500);
    expect((await rawRequest(`${gateway.url}/healthz`)).status).toBe(200);
    // The load balancer has not noticed yet.
    const late = await rig.chat();
    expect(late.status).toBe(200);
    expect(performance.now() - signalledAt).toBeLessThan(slowed(2_000));
    await eventually("nobody new is let in", async () =>
      RawConnection.open(gateway.url).then(
        (open) => (open.close(), false),
        () => true,
      ),
    );
    expect(performance.now() - signalledAt).toBeGreaterThan(1_990);

    for (const call of long) {
      const reply = await call.reply;
      expect([reply.status, reply.finishReason, reply.error]).toEqual([200, "stop", null]);
    }
    expect(await gateway.exited).toBe(0);
    expect(performance.now() - signalledAt).toBeLessThan(slowed(10_000));
    await eventually("its last lines are read", () => gateway.logs.some(({ event }) => event === "stopped"));
    expect(gateway.accessLines().filter(({ state }) => state === "complete").length).toBe(12);
  });

  test("a short drain is time for calls to end as well", async () => {
    await using rig = await setUp({ a: {} }, { server: { linger: "0ms", drain: "5s" } });
    const call = await rig.open({ x_tokens: 40, x_pace_ms: 25 }, { stream: true });
    await call.untilBody(300);
    rig.gateway.signal("SIGTERM");
    const { done, finishReason, error } = await call.reply;
    expect([done, finishReason, error]).toEqual([true, "stop", null]);
    expect(await rig.gateway.exited).toBe(0);
  });

  test("streams that are too long for the drain end with an error event, and waiting calls get an answer", async () => {
    await using rig = await setUp({ a: {} }, { server: { linger: "0ms", drain: "5300ms" } });
    const { gateway } = rig;
    const streams = await Promise.all(Array.from({ length: 10 }, () => rig.open({ model: "fault:hang-after@3" }, { stream: true })));
    const waiting = await rig.open({ model: "fault:silent" });
    const silent = await rig.open({ model: "fault:silent" }, { stream: true });
    for (const stream of streams) await stream.untilBody(300);
    await rig.upstream.a.waitFor(({ chats }) => chats.length === 12);
    const signalledAt = performance.now();
    gateway.signal("SIGTERM");
    for (const stream of streams) {
      const reply = await stream.reply;
      expect([reply.status, reply.done, reply.finishReason, reply.error?.code]).toEqual([200, false, null, "server_shutting_down"]);
      expect(reply.content.split(" ").length).toBe(3);
      expect(reply.response.endedCleanly).toBe(true);
    }
    for (const call of [waiting, silent]) {
      const reply = await call.reply;
      expect([reply.status, reply.error?.code]).toEqual([503, "server_shutting_down"]);
    }
    expect(performance.now() - signalledAt).toBeGreaterThan(250);
    expect(await gateway.exited).toBe(0);
    expect(performance.now() - signalledAt).toBeLessThan(slowed(5_300));
    await rig.upstream.a.ledger.settled();
    expect(rig.upstream.a.ledger.chats.every(({ endedBy }) => endedBy === "client_closed")).toBe(true);
    const states = gateway
      .accessLines()
      .slice(1)
      .map(({ state, error }) => `${String(state)} ${String(error)}`);
    expect(states.toSorted()).toEqual([
      ...Array.from({ length: 2 }, () => "failed shutting_down"),
      ...Array.from({ length: 10 }, () => "interrupted shutting_down"),
    ]);
  });

  test.each(["SIGTERM", "SIGINT"] as const)("F64: a second %s ends it at once with exit code 0", async (signal) => {
    await using rig = await setUp({ a: {} }, { server: { linger: "20s", drain: "60s" } });
    const call = await rig.open({ model: "fault:hang-after@3" }, { stream: true });
    await call.untilBody(300);
    rig.gateway.signal(signal);
    await rig.gateway.waitForLog(({ event }) => event === "stopping");
    expect(rig.gateway.running).toBe(true);
    const signalledAt = performance.now();
    rig.gateway.signal(signal);
    expect(await rig.gateway.exited).toBe(0);
    expect(performance.now() - signalledAt).toBeLessThan(slowed(2_000));
    expect((await call.reply).done).toBe(false);
  });

  test("SIGINT does not wait for load balancers", async () => {
    await using rig = await setUp({ a: {} }, { server: { linger: "20s", drain: "20s" } });
    const signalledAt = performance.now();
    rig.gateway.signal("SIGINT");
    expect(await rig.gateway.exited).toBe(0);
    expect(performance.now() - signalledAt).toBeLessThan(slowed(2_000));
  });

  test("F64: SIGTERM during the start ends it cleanly", async () => {
    await using upstream = await startChaos();
    upstream.modelsBehaviour = "fault:silent";
    const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
    const file = join(directory, "sluice.yaml");
    await writeFile(
      file,
      JSON.stringify({ listen: "127.0.0.1:0", admin: "off", channels: [{ name: "a", base_url: upstream.url }], server: { linger: "0ms" } }),
    );
    const child = spawn(["start", "--config", file], {});
    await upstream.waitFor(({ attempts }) => attempts.length > 0, 10_000);
    const signalledAt = performance.now();
    child.process.kill("SIGTERM");
    expect(await child.process.exited).toBe(0);
    expect(performance.now() - signalledAt).toBeLessThan(slowed(2_000));
    await rm(directory, { recursive: true });
  });
});

/** The command, in an environment of its own. */
function spawn(
  args: readonly string[],
  env: Record<string, string>,
  program: string = product,
): { readonly process: Bun.Subprocess<"ignore", "pipe", "pipe">; readonly output: () => Promise<string> } {
  const { PATH = "", HOME = "" } = process.env;
  const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));
  const child = Bun.spawn(["sh", program, ...args], {
    // The data of a gateway without a file lies in the folder it is started in.
    cwd: directory,
    onExit: () => rmSync(directory, { recursive: true, force: true }),
    env: { PATH, HOME, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  return {
    process: child,
    output: async () => (await new Response(child.stdout).text()) + (await new Response(child.stderr).text()),
  };
}

describe("a signal during the start", () => {
  /** The bit of a signal among those that a process ignores or answers. */
  function heeds(pid: number, what: "SigIgn" | "SigCgt", signal: "SIGHUP" | "SIGTERM" = "SIGHUP"): boolean {
    const mask = new RegExp(`${what}:\\s+([0-9a-f]+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return mask !== undefined && ((BigInt(`0x${mask}`) >> BigInt(system.signals[signal] - 1)) & 1n) === 1n;
  }

  test.skipIf(process.platform !== "linux")("SIGTERM is answered, so that it ends in a container too", async () => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
    // As long as somebody else has the store for himself, the start waits for it.
    using store = new Database(join(directory, "sluice.db"));
    store.run("begin exclusive");
    const file = join(directory, "sluice.yaml");
    await writeFile(file, JSON.stringify({ listen: "127.0.0.1:0", admin: "off", data_dir: directory }));
    const child = spawn(["start", "--config", file], {});
    try {
      // Where nobody listens to it, the first process of a container does not even get it.
      await eventually("it listens to the signal", () => heeds(child.process.pid, "SigCgt", "SIGTERM"));
      child.process.kill("SIGTERM");
      expect(await child.process.exited).toBe(0);
    } finally {
      child.process.kill("SIGKILL");
      await rm(directory, { recursive: true });
    }
  });

  test.skipIf(process.platform !== "linux")("SIGHUP does not end it, and causes a reload after the start", async () => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
    const dataDir = join(directory, "data");
    await mkdir(dataDir);
    // As long as somebody else has the store for himself, the start waits for it.
    using store = new Database(join(dataDir, "sluice.db"));
    store.run("begin exclusive");
    const file = join(directory, "sluice.yaml");
    await writeFile(file, JSON.stringify({ listen: "127.0.0.1:0", admin: "off", data_dir: dataDir }));
    // The launcher from source: it ignores the signal until the runtime listens to it.
    const child = spawn(["start", "--config", file], {}, resolve(import.meta.dir, "../../bin/sluice"));
    const { pid } = child.process;
    let said = "";
    const heard = (async () => {
      for await (const text of child.process.stdout.pipeThrough(new TextDecoderStream())) said += text;
    })();
    try {
      await eventually("the runtime begins", () => readlinkSync(`/proc/${pid}/exe`).includes("bun"));
      child.process.kill("SIGHUP");
      await eventually("it listens to signals", () => heeds(pid, "SigCgt"));
      expect(heeds(pid, "SigIgn")).toBe(false);
      child.process.kill("SIGHUP");
      store.run("rollback");
      await eventually("it is up and has read the file again", () => said.includes('"event":"reloaded"'), 15_000);
      expect(said.indexOf('"event":"listening"')).toBeLessThan(said.indexOf('"event":"reloaded"'));
      expect(said).toContain('"event":"listening"');
    } finally {
      child.process.kill("SIGKILL");
      await heard;
      await rm(directory, { recursive: true });
    }
  });
});

describe("health", () => {
  test("is shown without a key, and reveals nothing else", async () => {
    await using rig = await setUp({ a: {} });
    const health = await rawRequest(`${rig.gateway.url}/healthz`);
    expect([health.status, health.text.trim()]).toEqual([200, "ok"]);
    const ready = await rawRequest(`${rig.gateway.url}/readyz`);
    expect([ready.status, ready.json()]).toEqual([200, { status: "ready", config: expect.stringMatching(/^[0-9a-f]{12}$/) }]);
    await rig.check();
  });
});

describe("the log", () => {
  const promptCanary = "canary-of-a-prompt-7f3a";
  const answerCanary = "canary-of-an-answer-91bd";
  let rig: Rig<"a">;

  beforeAll(async () => {
    rig = await setUp({ a: {} }, { log: { level: "debug" } });
  });

  afterAll(async () => {
    await rig[Symbol.asyncDispose]();
  });

  const messages = [
    { role: "system", content: promptCanary },
    { role: "user", content: [{ type: "text", text: promptCanary }] },
  ];

  async function lineOf(body: Record<string, unknown>, stream: boolean): Promise<LogLine> {
    const reply = await rig.chat({ messages, ...body }, { stream });
    return rig.accessLine(reply.requestId);
  }

  test("has one line for each call, with its key, model, channel, times and usage", async () => {
    for (const stream of [false, true]) {
      expect(await lineOf({ model: "told" }, stream)).toEqual({
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        level: "info",
        event: "call",
        id: expect.stringMatching(/^req_/),
        key: expect.any(String),
        operation: "chat",
        model: "told",
        stream,
        status: 200,
        state: "complete",
        channel: "a",
        upstream_model: "told",
        attempts: 1,
        total_ms: expect.any(Number),
        first_content_ms: expect.any(Number),
        prompt_tokens: expect.any(Number),
        completion_tokens: 5,
        cached_tokens: null,
        finish: "stop",
        bytes_in: expect.any(Number),
        bytes_out: expect.any(Number),
      });
    }
    await rig.check();
  });

  test("names what went wrong, and every attempt", async () => {
    const failed = await lineOf({ model: "fault:status@500" }, false);
    expect(failed).toMatchObject({ status: 502, state: "failed", error: "overloaded", channel: null, attempts: 3 });
    expect(failed["tries"]).toMatchObject(
      Array.from({ length: 3 }, () => ({ channel: "a", outcome: "failed", error: "overloaded", status: 500, ms: expect.any(Number) })),
    );
    expect(await lineOf({ model: "fault:rst-after@2" }, true)).toMatchObject({ status: 200, state: "interrupted", error: "interrupted" });
    await rig.check();
  });

  test("has one line for each rejected call", async () => {
    const refused = [
      await rig.chat({}, { key: "sk-stranger-0123456789abcdef" }),
      await rig.chat("this is not JSON"),
      await rig.chat({ messages: [] }),
    ];
    for (const { requestId, status } of refused) {
      expect(await rig.accessLine(requestId)).toMatchObject({ status, state: "failed", attempts: 0, channel: null });
    }
    await rig.check();
  });

  test("S55: never contains a prompt, an answer or a secret, at any level and whatever happens", async () => {
    for (const fault of [
      "ok",
      "leak-key@401",
      "leak-key@500",
      "leak-key@400",
      "status@429",
      "html-200",
      "rst-after@2",
      "sse-error-after@1",
      "malformed-event@1",
      "content-policy",
      "context-length",
    ]) {
      for (const stream of [false, true]) {
        const model = fault === "ok" ? "ok" : `fault:${fault}`;
        await rig.chat(
          { model, messages, x_reply: `${answerCanary} and ${answerCanary}` },
          { stream, headers: { cookie: "session=canary-of-a-cookie", "x-custom": "canary-of-a-header" } },
        );
      }
    }
    const secretKey = "sk-canary-of-a-wrong-key-0123456789";
    await rig.chat({ messages }, { key: secretKey });
    await rawRequest(`${rig.gateway.url}/v1/models?token=canary-of-a-query`, { headers: { Authorization: `Bearer ${clientKey}` } });
    await rig.check({
      secrets: [promptCanary, secretKey, "canary-of-a-cookie", "canary-of-a-header", "canary-of-a-query"],
      oneAttemptSpeaks: false,
    });
    expect(rig.gateway.text).not.toContain(answerCanary);
  });
});

test("a reload logs the warnings of the new file once, whatever number of workers reads it, and not those that were told before", async () => {
  await using upstream = await startChaos();
  const configured = (timeouts: Readonly<Record<string, string>>, name = "up") => ({
    keys: [{ name: "tester", key: clientKey }],
    channels: [{ name, base_url: upstream.url, api_key: upstreamKey("a"), models: ["chaos"], timeouts }],
  });
  const outlived = { first_content: "20m" };
  await using gateway = await startGateway({ config: configured({}), args: ["--workers", "2"] });
  await eventually("both workers", () => gateway.logs.filter(({ event }) => event === "worker_ready").length === 2, 30_000);
  const warnings = (): readonly unknown[] => gateway.logs.filter(({ event }) => event === "config_warning").map(({ detail }) => detail);
  const reload = async (config: ReturnType<typeof configured>): Promise<void> => {
    const before = reloads(gateway);
    await gateway.rewriteConfig(config);
    await eventually("both workers have read it", () => reloads(gateway) === before + 2);
  };
  await reload(configured(outlived));
  expect(warnings()).toEqual([expect.stringMatching(/sluice\.yaml:\d+: channels\[0\]\.timeouts\.first_content: /)]);
  await reload(configured(outlived, "renamed"));
  expect(warnings().length).toBe(1);
  await reload(configured({}));
  await reload(configured(outlived));
  expect(warnings().length).toBe(2);
});

test("a log of the level warn in the form of text has neither calls nor JSON, and what goes wrong", async () => {
  const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));
  const file = join(directory, "sluice.yaml");
  const port = await freePort();
  const config = {
    listen: `127.0.0.1:${port}`,
    admin: "off",
    log: { level: "warn", format: "text" },
    keys: [{ name: "k", key: clientKey }],
    server: { linger: "0s" },
  };
  await writeFile(file, JSON.stringify(config));
  const child = Bun.spawn(["sh", product, "start", "--config", file], { cwd: directory, stdout: "pipe", stderr: "ignore" });
  const ready = async (): Promise<boolean> => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null))?.ok ?? false;
  await eventually("it listens", ready, 30_000);
  const headers = { authorization: `Bearer ${clientKey}` };
  expect((await fetch(`http://127.0.0.1:${port}/v1/models`, { headers })).status).toBe(200);
  expect((await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: "POST", headers, body: "{}" })).status).toBe(400);
  await writeFile(file, "keys: no");
  child.kill("SIGHUP");
  let text = "";
  const read = (async () => {
    for await (const part of child.stdout) text += Buffer.from(part).toString();
  })();
  await eventually("the mistake is told", () => text.includes("reload_failed"), 30_000);
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
  await read;
  rmSync(directory, { recursive: true });
  // What the start says to a person is no part of the log.
  expect(text).not.toMatch(/^\{|^[\d:.]+ (?:debug|info )|"level"/m);
  expect(text).toMatch(/^\d\d:\d\d:\d\d\.\d{3} (?:warn |error) reload_failed /m);
});

test("a log at a terminal is a text for a person, coloured unless NO_COLOR is set, and JSON to everything else", async () => {
  const config = { log: { level: "info" }, keys: [{ name: "k", key: clientKey }], channels: [], server: { linger: "0s" } };
  const coloured = await shownAtTerminal(config, {});
  expect(coloured).toMatch(/^\u001b\[2m[\d:.]{12}\u001b\[0m \u001b\[32minfo \u001b\[0m listening \u001b\[2murl=\u001b\[0mhttp:/m);
  expect(coloured).toMatch(/^\u001b\[2m[\d:.]{12}\u001b\[0m \u001b\[32minfo \u001b\[0m call .*status=\u001b\[0m404/m);
  const plain = await shownAtTerminal(config, { NO_COLOR: "1" });
  expect(plain).toMatch(/^[\d:.]{12} info  listening url=http:/m);
  expect(plain).toMatch(/^[\d:.]{12} info  call .*status=404/m);
  for (const shown of [coloured, plain]) expect(shown).not.toMatch(/^\{/m);
  expect(await shownAtTerminal({ ...config, log: { format: "json" } }, {})).toMatch(/^\{"time":.*"event":"listening"/m);
  await using piped = await startGateway({ config });
  expect(piped.logs.some(({ event }) => event === "listening")).toBe(true);
  expect(piped.text).not.toContain("\u001b[");
  expect(piped.text).not.toMatch(/^[\d:.]{12} info/m);
});

/** What a gateway with a terminal for its outputs shows from its start to its end, with one call in between. */
async function shownAtTerminal(config: Readonly<Record<string, unknown>>, env: Readonly<Record<string, string>>): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));
  const port = await freePort();
  const file = join(directory, "sluice.yaml");
  await writeFile(file, JSON.stringify({ listen: `127.0.0.1:${port}`, admin: "off", data_dir: join(directory, "data"), ...config }));
  let shown = "";
  const decoder = new TextDecoder();
  await using terminal = new Bun.Terminal({
    data: (_, bytes) => {
      shown += decoder.decode(bytes, { stream: true });
    },
  });
  const { PATH = "", HOME = "" } = process.env;
  const child = Bun.spawn(["sh", product, "start", "--config", file], {
    cwd: directory,
    env: { PATH, HOME, TERM: "xterm", ...env },
    terminal,
  });
  try {
    await eventually("it listens", () => shown.includes("listening"), 30_000);
    const reply = await chat({ url: `http://127.0.0.1:${port}` }, { model: "any" }, { key: clientKey });
    expect(reply.status).toBe(404);
    await eventually("the call is shown", () => /\bcall\b/.test(shown));
  } finally {
    child.kill("SIGTERM");
  }
  expect(await child.exited).toBe(0);
  rmSync(directory, { recursive: true });
  return shown.replaceAll("\r\n", "\n");
}

describe("a first start", () => {
  async function startedWith(
    env: Record<string, string>,
  ): Promise<{ readonly child: ReturnType<typeof spawn>["process"]; readonly text: () => string; readonly url: string }> {
    const { process: child } = spawn(["start", "--listen", "127.0.0.1:0"], env);
    let text = "";
    void (async () => {
      for await (const bytes of child.stdout) text += new TextDecoder().decode(bytes);
    })();
    await eventually("it listens", () => /"event":"listening"/.test(text), 10_000);
    return { child, text: () => text, url: /"url":"([^"]+)"/.exec(text)![1]! };
  }

  test("with nothing configured prints a key that works, where it listens, and what to do with the models of this machine", async () => {
    const { child, text, url } = await startedWith({});
    try {
      const keys = text().match(/\bsk-\S+/g) ?? [];
      expect(keys.length).toBe(1);
      expect(text()).toContain(`${url}/v1`);
      for (const model of ["embedded/stories-15m", "embedded/flite", "embedded/whisper-base"]) expect(text()).toContain(model);
      expect(text()).toMatch(/[A-Z]+_API_KEY=/);
      expect(text()).toContain("--config");
      const models = await rawRequest(`${url}/v1/models`, { headers: { Authorization: `Bearer ${keys[0]}` } });
      const listed = models.json() as { data: { id: string; description: string }[] };
      expect(listed.data.map(({ id }) => id).toSorted()).toEqual(["embedded/flite", "embedded/stories-15m", "embedded/whisper-base"]);
      for (const { description } of listed.data) expect(description).toMatch(/\w/);
      expect((await rawRequest(`${url}/v1/models`)).status).toBe(401);
      const reply = await chat({ url }, { model: "any" }, { key: keys[0]! });
      expect([reply.status, reply.error?.code]).toEqual([404, "model_not_found"]);
      expect([(await rawRequest(`${url}/healthz`)).status, (await rawRequest(`${url}/readyz`)).status]).toEqual([200, 200]);
      // Shown once: not in the log.
      expect(text().split(keys[0]!).length).toBe(2);
    } finally {
      child.kill("SIGINT");
    }
    expect(await child.exited).toBe(0);
  });

  test("with nothing at all, not even those models, says what is missing", async () => {
    const { child, text, url } = await startedWith({ SLUICE_EMBEDDED: "off" });
    try {
      const [key = ""] = text().match(/\bsk-\S+/g) ?? [];
      expect(text()).toContain("no channel yet");
      expect(text()).toMatch(/[A-Z]+_API_KEY=/);
      expect(text()).toContain("--config");
      const models = await rawRequest(`${url}/v1/models`, { headers: { Authorization: `Bearer ${key}` } });
      expect([models.status, models.json()]).toEqual([200, { object: "list", data: [] }]);
    } finally {
      child.kill("SIGINT");
    }
    expect(await child.exited).toBe(0);
  });

  test("with a provider in the environment has its channel, and the client key that is set there", async () => {
    await using upstream: Chaos = await startChaos({ name: "a", models: ["found-in-environment"] });
    const own = "sk-own-canary-0123456789abcdef";
    const { child, text, url } = await startedWith({ OLLAMA_HOST: upstream.url.replace("/v1", ""), SLUICE_KEY: own });
    try {
      expect(text()).toContain("1 model");
      expect(text()).not.toContain(own);
      const reply = await chat({ url }, { model: "found-in-environment" }, { key: own });
      expect([reply.status, reply.content]).toEqual([200, "a2:0 a2:1 a2:2 a2:3 a2:4"]);
    } finally {
      child.kill("SIGINT");
    }
    expect(await child.exited).toBe(0);
  });

  test("with a provider's key in the environment names the channel, and never the key", async () => {
    const secret = "sk-provider-canary-0123456789";
    // An address that refuses at once stands in for the provider's own.
    const { child, text } = await startedWith({ AZURE_OPENAI_API_KEY: secret, AZURE_OPENAI_ENDPOINT: "http://127.0.0.1:9" });
    child.kill("SIGINT");
    expect(await child.exited).toBe(0);
    expect(text()).toMatch(/Channels, from the provider keys[^]*127\.0\.0\.1:9/);
    expect(text()).not.toContain(secret);
  });

  test("on a port in use says so and exits with 1", async () => {
    const taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
    const child = spawn(["start", "--listen", `127.0.0.1:${taken.port}`], {});
    expect(await child.process.exited).toBe(1);
    expect(await child.output()).toContain(`Port ${taken.port} on 127.0.0.1 is already in use`);
    await taken.stop();
  });
});

describe("sluice check", () => {
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  });

  afterAll(async () => {
    await rm(directory, { recursive: true });
  });

  async function check(text: string, ...args: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
    const file = join(directory, "sluice.yaml");
    await writeFile(file, text);
    const child = spawn(["check", file, ...args], { KEY: "sk-check-canary-0123456789" });
    const output = await child.output();
    return { code: await child.process.exited, output };
  }

  const good = 'keys:\n  - { name: x, key: "${KEY}" }\nchannels:\n  - { name: a, base_url: "http://127.0.0.1:1/v1", api_key: "${KEY}" }\n';

  test("passes a good file, starts nothing and shows no secret", async () => {
    const { code, output } = await check(good);
    expect([code, output]).toEqual([0, expect.stringContaining("1 channel")]);
    expect(output).not.toContain("canary");
    expect(existsSync(join(directory, "data"))).toBe(false);
  });

  test("does not read an endless file", async () => {
    const child = spawn(["check", "/dev/zero"], {});
    expect(await child.output()).toContain("larger than 1 MiB");
    expect(await child.process.exited).toBe(78);
  });

  test("names the line, the reason and the fix of a bad one", async () => {
    const { code, output } = await check(good.replace("base_url", "base_ulr"));
    expect(code).toBe(78);
    expect(output).toMatch(/sluice\.yaml:4/);
    expect(output).toContain("base_url");
    const { code: jsonCode, output: json } = await check(good.replace("base_url", "base_ulr"), "--json");
    expect([jsonCode, JSON.parse(json)]).toMatchObject([78, { ok: false, problems: [{ line: 4 }] }]);
  });

  test("and a start with such a file is refused with the same messages and exit code 78", async () => {
    const file = join(directory, "sluice.yaml");
    await writeFile(file, good.replace("base_url", "base_ulr"));
    const child = spawn(["start", "--config", file], { KEY: "sk-check-canary-0123456789" });
    expect(await child.process.exited).toBe(78);
    const output = await child.output();
    expect(output).toMatch(/sluice\.yaml:4/);
    expect(output).toContain("The gateway was not started.");
  });
});

test("an expired key is refused like any wrong one, and one that expires later is not", async () => {
  const [past, future] = ["sk-past-canary-0123456789abcdef", "sk-future-canary-0123456789abcdef"];
  await using upstream = await startChaos();
  const keys = [
    { name: "past", key: past, expires: "2020-01-01" },
    { name: "future", key: future, expires: "2099-01-01" },
  ];
  await using gateway = await startGateway({
    config: { keys, channels: [{ name: "a", base_url: upstream.url, models: ["chaos"], api_key: upstreamKey("a") }] },
  });
  const expired = await chat(gateway, {}, { key: past });
  const unknown = await chat(gateway, {}, { key: "sk-never-canary-0123456789abcdef" });
  expect([expired.status, expired.error?.code, expired.error?.message]).toEqual([401, "invalid_api_key", unknown.error?.message]);
  expect((await (await openChat(gateway, {}, { key: future })).reply).status).toBe(200);
});
