import type { Socket } from "bun";
import { readFileSync } from "node:fs";
import { tokenMark } from "./ask.ts";
import type { ClosedResult, Held, Job, Left, OpenResult, PacedResult } from "./job.ts";
import { requestBytes } from "./request-bytes.ts";
import { quantile } from "./statistics.ts";
import { AnswerReader } from "./wire.ts";

/** The load client, a process of its own on raw sockets: it must cost little beside what it measures, and count exactly. */
const job = JSON.parse(process.argv[2] ?? "") as Job;
const { hostname, port } = new URL(job.origin);
const requests = requestsOf(job);
let turn = 0;
const mark = tokenMark.charCodeAt(0);

interface Handlers {
  body(bytes: Buffer): void;
  end(reader: AnswerReader): void;
  /** The connection closed, or its bytes were not HTTP, while an answer was being read. */
  cut(): void;
}

class Connection {
  readonly reader = new AnswerReader();
  handlers: Handlers | null = null;
  socket: Socket<Connection> | null = null;
  private unsent: Buffer | null = null;

  send(handlers: Handlers): void {
    this.handlers = handlers;
    this.unsent = requests[turn++ % requests.length] ?? null;
    this.flush();
  }

  /** An upload goes out as fast as it is taken; anything smaller in one write. */
  flush(): void {
    if (this.unsent === null) return;
    const sent = this.socket?.write(this.unsent) ?? -1;
    if (sent < 0) return this.cut();
    this.unsent = sent < this.unsent.length ? this.unsent.subarray(sent) : null;
  }

  receive(bytes: Buffer): void {
    const { handlers } = this;
    if (handlers === null) return;
    try {
      if (!this.reader.feed(bytes, (body) => handlers.body(body))) return;
    } catch {
      return this.cut();
    }
    this.handlers = null;
    // Who answers before the request has ended will not read the rest: the connection cannot carry another one.
    if (this.unsent !== null) this.leave();
    handlers.end(this.reader);
  }

  private leave(): void {
    this.unsent = null;
    this.socket?.terminate();
    this.socket = null;
  }

  cut(): void {
    const { handlers } = this;
    this.handlers = null;
    this.unsent = null;
    handlers?.cut();
  }
}

function connect(): Promise<Connection> {
  const connection = new Connection();
  return Bun.connect<Connection>({
    hostname,
    port: Number(port),
    data: connection,
    socket: {
      data: (socket, bytes) => socket.data.receive(bytes),
      drain: (socket) => socket.data.flush(),
      close: (socket) => {
        socket.data.socket = null;
        socket.data.cut();
      },
      error: (socket) => socket.data.cut(),
      connectError: () => undefined,
    },
  }).then((socket) => {
    connection.socket = socket;
    return connection;
  });
}

async function closed(connections: number, seconds: number): Promise<ClosedResult> {
  let answered = 0;
  let failures = 0;
  const began = performance.now();
  const deadline = began + seconds * 1000;
  const loops = Array.from({ length: connections }, async () => {
    let connection = await connect();
    do {
      if (connection.socket === null) connection = await connect();
      const status = await new Promise<number>((resolve) =>
        connection.send({ body: () => undefined, end: (reader) => resolve(reader.status), cut: () => resolve(0) }),
      );
      answered += 1;
      if (status !== 200) failures += 1;
    } while (performance.now() < deadline);
  });
  await Promise.all(loops);
  return { requests: answered, failures, seconds: (performance.now() - began) / 1000 };
}

/**
 * Never waits for an answer before the next request leaves (a request that finds every connection busy gets a new one), so a slow target
 * cannot hide its slowness by being asked less.
 */
async function open(perSecond: number, seconds: number): Promise<OpenResult> {
  const idle: Connection[] = await Promise.all([connect(), connect()]);
  const statuses: Record<string, number> = {};
  const wholeMs: number[] = [];
  const firstMs: number[] = [];
  const gapsMs: number[] = [];
  const attempts: number[] = [];
  const sentByTenth: Record<number, number> = {};
  let underWay = 0;

  const exchange = (connection: Connection) => {
    const sent = performance.now();
    let first = 0;
    let previous = 0;
    connection.send({
      body: (bytes) => {
        const now = performance.now();
        if (first === 0) {
          first = now;
          firstMs.push(now - sent);
        }
        for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) {
          if (previous !== 0) gapsMs.push(now - previous);
          previous = now;
        }
      },
      end: (reader) => {
        underWay -= 1;
        wholeMs.push(performance.now() - sent);
        attempts.push(Number(reader.header("x-sluice-attempts") ?? 0));
        statuses[reader.status] = (statuses[reader.status] ?? 0) + 1;
        if (/^close$/i.test(reader.header("connection") ?? "")) connection.socket?.end();
        else idle.push(connection);
      },
      cut: () => {
        underWay -= 1;
        statuses["cut"] = (statuses["cut"] ?? 0) + 1;
      },
    });
  };

  const total = perSecond * seconds;
  const began = performance.now();
  for (let sent = 0; sent < total;) {
    const due = Math.min(total, Math.floor(((performance.now() - began) / 1000) * perSecond) + 1);
    for (; sent < due; sent += 1) {
      const tenth = Math.floor(Date.now() / 100);
      sentByTenth[tenth] = (sentByTenth[tenth] ?? 0) + 1;
      underWay += 1;
      const connection = takeOpen(idle);
      if (connection !== null) exchange(connection);
      else
        void connect().then(exchange, () => {
          underWay -= 1;
          statuses["refused"] = (statuses["refused"] ?? 0) + 1;
        });
    }
    await Bun.sleep(1);
  }
  const deadline = performance.now() + answersWithinMs;
  while (underWay > 0 && performance.now() < deadline) await Bun.sleep(5);
  if (underWay > 0) statuses["unanswered"] = underWay;
  return { requests: total, statuses, wholeMs, firstMs, gapsMs, attempts, sentByTenth };
}

function takeOpen(idle: Connection[]): Connection | null {
  for (let connection = idle.pop(); connection !== undefined; connection = idle.pop()) if (connection.socket !== null) return connection;
  return null;
}

async function paced(streams: number, seconds: number): Promise<PacedResult> {
  let chunks = 0;
  let dropped = 0;
  let counting = false;
  const gapsMs: number[] = [];
  for (let stream = 0; stream < streams; stream += 1) {
    let previous = 0;
    const connection = await connect();
    connection.send({
      body: (bytes) => {
        const now = performance.now();
        for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) {
          if (counting) {
            chunks += 1;
            gapsMs.push(now - previous);
          }
          previous = now;
        }
      },
      end: () => (dropped += 1),
      cut: () => (dropped += 1),
    });
    // Streams that all began together would tick together, which no population of clients does.
    await Bun.sleep(3);
  }
  await Bun.sleep(1000);
  counting = true;
  const began = performance.now();
  await say("steady", {});
  await Bun.sleep(seconds * 1000);
  counting = false;
  return {
    chunks,
    dropped,
    seconds: (performance.now() - began) / 1000,
    gapP50Ms: quantile(gapsMs, 0.5),
    gapP99Ms: quantile(gapsMs, 0.99),
  };
}

async function hold(streams: number, stalled: boolean): Promise<void> {
  const began = performance.now();
  const connections: Connection[] = [];
  let failed = 0;
  let dropped = 0;
  let leaving = false;
  const openOne = async () => {
    const connection = await connect();
    connections.push(connection);
    const opened = await new Promise<boolean>((resolve) =>
      connection.send({
        body: () => {
          if (stalled) connection.socket?.pause();
          resolve(connection.reader.status === 200);
        },
        end: () => resolve(false),
        cut: () => {
          if (!leaving) dropped += 1;
          resolve(false);
        },
      }),
    );
    if (!opened) failed += 1;
  };
  let next = 0;
  const openers = Array.from({ length: Math.min(streams, openersMax) }, async () => {
    while (next < streams) {
      next += 1;
      await openOne().catch(() => (failed += 1));
    }
  });
  await Promise.all(openers);
  await say("held", { open: streams - failed, failed, seconds: (performance.now() - began) / 1000 } satisfies Held);

  await new Promise((resolve) => process.stdin.once("data", resolve));
  leaving = true;
  for (const connection of connections) connection.socket?.terminate();
  await say("left", { dropped } satisfies Left);
  await Bun.sleep(100);
}

function requestsOf({ tokensFile }: Job): readonly Buffer[] {
  if (tokensFile === undefined) return [requestBytes(job, job.asked)];
  const tokens = JSON.parse(readFileSync(tokensFile, "utf8")) as readonly string[];
  return tokens.map((token) => requestBytes({ ...job, headers: { ...job.headers, authorization: `Bearer ${token}` } }, job.asked));
}

async function say(event: string, fields: object): Promise<void> {
  await Bun.write(Bun.stdout, `${JSON.stringify({ event, ...fields })}\n`);
}

const openersMax = 64;
const answersWithinMs = 15_000;

process.stdin.on("end", () => process.exit(0)).resume();
switch (job.work.kind) {
  case "closed":
    await say("result", await closed(job.work.connections, job.work.seconds));
    break;
  case "open":
    await say("result", await open(job.work.perSecond, job.work.seconds));
    break;
  case "paced":
    await say("result", await paced(job.work.streams, job.work.seconds));
    break;
  case "hold":
    await hold(job.work.streams, job.work.stalled);
    break;
}
process.exit(0);
