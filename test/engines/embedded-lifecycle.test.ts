// Needs: quiet, models. It mostly waits for engines to say that they are idle, and to exit.
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Answer, Engine } from "../../packages/embedded/src/server/engine.ts";
import { serveEngine, type EngineServer } from "../../packages/embedded/src/server/serve-engine.ts";
import { makeSplitAudio } from "../../src/engines/audio/split.ts";
import { explain } from "../../src/dialects/errors/explain.ts";
import { engineCommand } from "../../src/engines/command.ts";
import { Engines } from "../../src/engines/engines.ts";
import { eventually } from "../support/eventually.ts";

// Processes start slowly on a busy machine.
setDefaultTimeout(60_000);

let folder = "";
const children: Bun.Subprocess[] = [];
const servers: EngineServer[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-lifecycle-test-"));
});

afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
    await child.exited;
  }
  for (const server of servers.splice(0)) await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const speechPath = "/v1/audio/speech";

interface Running {
  readonly socket: string;
  readonly child: Bun.Subprocess<"pipe", "pipe", "inherit">;
  /** What it has said so far. */
  readonly signs: string[];
}

/** A real engine in a process of its own, as the gateway would start it. */
async function start(socket: string, ...flags: readonly string[]): Promise<Running> {
  const child = Bun.spawn([...engineCommand("speech", socket, null), ...flags], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  children.push(child);
  const signs: string[] = [];
  void (async () => {
    for await (const bytes of child.stdout) signs.push(...new TextDecoder().decode(bytes).trim().split("\n"));
  })();
  await eventually("it is ready", () => signs.includes('{"event":"ready"}'), 20_000);
  return { socket, child, signs };
}

function post(socket: string, path: string, body: unknown): Promise<Response> {
  return fetch(`http://engine${path}`, { method: "POST", body: JSON.stringify(body), unix: socket });
}

/** A client that stops reading after the first bytes, until it is told to go on. */
async function deafClient(socket: string, path: string, body: unknown) {
  const text = JSON.stringify(body);
  const seen = { bytes: 0, end: "", closed: false, deaf: true };
  const connection = await Bun.connect({
    unix: socket,
    socket: {
      data(from, bytes) {
        seen.bytes += bytes.length;
        seen.end = (seen.end + bytes.toString("latin1")).slice(-5);
        if (seen.deaf) from.pause();
      },
      close() {
        seen.closed = true;
      },
    },
  });
  connection.write(`POST ${path} HTTP/1.1\r\nhost: engine\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  const listen = (): void => {
    seen.deaf = false;
    connection.resume();
  };
  return { seen, listen, leave: () => connection.terminate() };
}

const line = { model: "flite", voice: "kal16", input: "Hello there.", response_format: "pcm" };
const long = { ...line, input: "This is one of many sentences that are spoken. ".repeat(40), speed: 0.5 };

describe("an engine process", () => {
  test("does not exit while an answer is computed but not read, and exits after that", async () => {
    const engine = await start(join(folder, "s"), "--idle-seconds", "0.4");
    const client = await deafClient(engine.socket, speechPath, long);
    await eventually("it is served", () => client.seen.bytes > 0, 20_000);
    // Its turn comes when the other answer is computed.
    expect((await post(engine.socket, speechPath, line)).status).toBe(200);
    await Bun.sleep(1_500);
    expect(engine.child.exitCode).toBeNull();
    expect(client.seen.closed).toBe(false);
    const heard = client.seen.bytes;
    client.listen();
    await eventually("the answer is complete", () => client.seen.end === "0\r\n\r\n", 10_000);
    expect(client.seen.bytes).toBeGreaterThan(heard + 500_000);
    expect(await engine.child.exited).toBe(0);
    await eventually("it says its last", () => engine.signs.at(-1) === '{"event":"rest"}');
    // It beats every few seconds: how often it has is the machine's doing.
    expect(engine.signs.filter((sign, at) => sign !== engine.signs[at - 1])).toEqual([
      '{"event":"ready"}',
      '{"event":"beat"}',
      '{"event":"rest"}',
    ]);
  });

  test("exits although an answer was not read, once its client has left", async () => {
    const engine = await start(join(folder, "s"), "--idle-seconds", "0.4");
    const client = await deafClient(engine.socket, speechPath, long);
    await eventually("it is served", () => client.seen.bytes > 0, 20_000);
    client.leave();
    expect(await engine.child.exited).toBe(0);
  });

  test("sends heartbeats while a request is open, and reports when it is idle", async () => {
    const engine = await start(join(folder, "s"));
    const client = await deafClient(engine.socket, speechPath, long);
    await eventually("it beats twice", () => engine.signs.filter((sign) => sign.includes("beat")).length >= 2, 20_000);
    expect(engine.signs.join()).not.toContain("rest");
    client.leave();
    await eventually("it rests", () => engine.signs.at(-1) === '{"event":"rest"}');
  });

  test("deletes the folder of its socket when its stdin is closed", async () => {
    const place = join(folder, "sluice-AbC123");
    mkdirSync(place);
    const [first, second] = await Promise.all([start(join(place, "one")), start(join(place, "two"))]);
    await first.child.stdin.end();
    expect(await first.child.exited).toBe(0);
    expect(readdirSync(place)).toEqual(["two"]);
    await second.child.stdin.end();
    expect(await second.child.exited).toBe(0);
    expect(existsSync(place)).toBe(false);
  });

  test.each(["sluice-AbC123", "somebodys"])("leaves folders of others alone: %s", async (name) => {
    const place = join(folder, name);
    mkdirSync(place);
    if (name.startsWith("sluice-")) writeFileSync(join(place, "precious"), "kept");
    const engine = await start(join(place, "one"));
    await engine.child.stdin.end();
    expect(await engine.child.exited).toBe(0);
    expect(existsSync(place)).toBe(true);
    expect(existsSync(engine.socket)).toBe(false);
  });

  test("leaves nothing behind of a gateway that was killed", async () => {
    const [supervisor, command] = ["engines", "command"].map((name) => resolve(import.meta.dir, `../../src/engines/${name}.ts`));
    const gateway = Bun.spawn(
      [
        process.execPath,
        "-e",
        `import { Engines } from ${JSON.stringify(supervisor)};
         import { engineCommand } from ${JSON.stringify(command)};
         const start = (engine, socket) => engineCommand(engine, socket, null);
         const engines = new Engines({ start, directory: ${JSON.stringify(folder)}, onEvent() {} });
         console.log(await engines.socketFor(${JSON.stringify(speechPath)}));
         setInterval(() => {}, 1000);`,
      ],
      { stdout: "pipe", stderr: "inherit" },
    );
    children.push(gateway);
    const { value } = await gateway.stdout.getReader().read();
    const socket = new TextDecoder().decode(value).trim();
    expect(existsSync(socket)).toBe(true);
    expect(dirname(dirname(socket))).toBe(folder);
    gateway.kill("SIGKILL");
    await eventually("nothing is left", () => readdirSync(folder).length === 0);
  });
});

type Pieces = Exclude<Answer["body"], string>;

/** An engine of our own process that answers as the test says. */
function serve(answer: (name: string, signal: AbortSignal) => Pieces | string): string {
  const socket = join(folder, `own-${servers.length}`);
  const engine: Engine = {
    models: () => [],
    requestBytesMax: 1_000_000,
    routes: new Map([
      [
        "/ask",
        async (request) => {
          const name = (await request.json()) as string;
          return (signal) => Promise.resolve({ type: "text/plain", body: answer(name, signal) });
        },
      ],
    ]),
  };
  servers.push(serveEngine(engine, { socket, idleMs: 60_000, onIdle: () => {} }));
  return socket;
}

describe("a job", () => {
  test("of a client that left ends when its work has stopped, not before", async () => {
    const order: string[] = [];
    let finish = (): void => {};
    const busy = new Promise<void>((done) => (finish = done));
    const socket = serve((name) => {
      if (name === "next") {
        order.push("next");
        return "ok";
      }
      return (async function* () {
        try {
          yield "first";
          order.push("at work");
          await busy;
          yield "second";
        } finally {
          await Bun.sleep(100);
          order.push("stopped");
        }
      })();
    });
    const client = await deafClient(socket, "/ask", "long");
    await eventually("it is at work", () => order.includes("at work"));
    const next = post(socket, "/ask", "next");
    client.leave();
    await Bun.sleep(300);
    expect(order).toEqual(["at work"]);
    finish();
    expect(await (await next).text()).toBe("ok");
    expect(order).toEqual(["at work", "stopped", "next"]);
  });

  test("ends when its answer is computed; but only a bounded number of answers may be unread", async () => {
    const socket = serve((name) =>
      name === "short"
        ? "ok"
        : (async function* () {
            for (let piece = 0; piece < 4; piece++) yield await Promise.resolve(new Uint8Array(500_000));
          })(),
    );
    const clients: Awaited<ReturnType<typeof deafClient>>[] = [];
    for (let count = 0; count < 15; count++) {
      const client = await deafClient(socket, "/ask", "large");
      clients.push(client);
      await eventually("it is served", () => client.seen.bytes > 0);
    }
    expect((await post(socket, "/ask", "short")).status).toBe(200);
    const last = await deafClient(socket, "/ask", "large");
    await eventually("it is served", () => last.seen.bytes > 0);
    expect((await post(socket, "/ask", "short")).status).toBe(429);
    clients[0]!.listen();
    await eventually("there is room again", async () => (await post(socket, "/ask", "short")).status === 200);
    for (const client of [...clients, last]) client.leave();
  });
});

test("an error of an engine is logged without quoted text, and is not retried on the same engine", async () => {
  const socket = join(folder, "s");
  const serving = resolve(import.meta.dir, "../../packages/embedded/src/server/serve-engine.ts");
  const script = `import { serveEngine } from ${JSON.stringify(serving)};
    const fail = async () => () => Promise.reject(new TypeError('cannot read "a secret" here'));
    const engine = { models: () => [], requestBytesMax: 1000, routes: new Map([[${JSON.stringify(speechPath)}, fail]]) };
    serveEngine(engine, { socket: process.argv.at(-1), idleMs: 60000, onIdle() {} });
    process.stdin.on("end", () => process.exit(0)).resume();
    console.log('{"event":"ready"}');`;
  const events: (readonly [string, Readonly<Record<string, unknown>>])[] = [];
  const engines = new Engines({
    start: (_, at) => [process.execPath, "-e", script, at],
    directory: folder,
    onEvent: (event, fields) => events.push([event, fields]),
  });
  try {
    const found = await engines.socketFor(speechPath);
    if (typeof found !== "string") throw new Error(found.detail);
    const response = await post(found, speechPath, {});
    const { status, headers } = response;
    const explained = explain({ status, body: await response.text(), header: (name) => headers.get(name) });
    expect(["timed_out", "model_failed"]).toContain(explained.kind);
    await eventually("it is reported", () => events.some(([event]) => event === "engine_failed"));
    const detail = String(events.find(([event]) => event === "engine_failed")?.[1]["detail"]);
    expect(detail).toStartWith("TypeError: cannot read … here");
    expect(detail).not.toContain("secret");
  } finally {
    await engines.stop();
  }
  expect(existsSync(socket)).toBe(false);
});

test.skipIf(!existsSync("/proc/self/stat"))(
  "the processes that split recordings are killed together, and none is started afterwards",
  async () => {
    const wav = new Uint8Array(1_000_000);
    const program = join(folder, "sleeper.ts");
    writeFileSync(program, `await Bun.write(${JSON.stringify(folder)} + "/pid-" + process.pid, ""); await Bun.sleep(60_000);`);
    const cut = makeSplitAudio({ program: new URL(`file://${program}`), processesMax: 2 });
    const recording = {
      length: wav.length,
      head: wav.slice(0, 16),
      read: (from: number, length: number) => Promise.resolve(wav.slice(from, from + length)),
    };
    const waiting = [cut(recording, 5), cut(recording, 5), cut(recording, 5)].map((cutting) => cutting.next());
    const pids = (): readonly number[] => readdirSync(folder).flatMap((name) => (name.startsWith("pid-") ? [Number(name.slice(4))] : []));
    await eventually("two are at work", () => pids().length === 2, 20_000);
    cut.stop();
    for (const outcome of await Promise.all(waiting)) expect(outcome).toMatchObject({ kind: "failed" });
    await eventually("they are gone", () => !pids().some((pid) => existsSync(`/proc/${pid}`)));
    expect(await cut(recording, 5).next()).toMatchObject({ kind: "failed", failure: { kind: "shutting_down" } });
    expect(pids().length).toBe(2);
  },
);
