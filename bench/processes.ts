import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { familyOf } from "./cpu.ts";

/** A child of the bench. Whatever happens to the bench, its children end with it. */
export interface Running {
  readonly pid: number;
  readonly startedAt: number;
  readonly exited: Promise<number>;
  /** The next line of its output that is a JSON object with this event; a failure if it ends or takes too long first. */
  event(name: string, withinMs: number): Promise<Readonly<Record<string, unknown>>>;
  /** What it has said under this name so far is of no more interest. */
  forget(name: string): void;
  /** Whether its output is read from now on. */
  hear(is: boolean): void;
  tell(line: string): void;
  stop(): Promise<void>;
}

export interface Start {
  readonly command: readonly string[];
  readonly name: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly directory?: string;
  /** After this event its output is read and thrown away: a gateway writes a line per request, and reading them costs the machine it is measured on. */
  readonly deafAfter?: string;
  /** Told of every line of its output that is a JSON object. */
  readonly onMessage?: (message: Readonly<Record<string, unknown>>) => void;
}

export const root = join(import.meta.dir, "..");
export const bun = ["sh", join(root, "bin", "bun")] as const;
export const scratch = mkdtempSync(join(tmpdir(), "sluice-bench-"));

const alive = new Set<Subprocess>();

export function start({ command, name, environment = {}, directory = scratch, deafAfter, onMessage }: Start): Running {
  const startedAt = performance.now();
  const child = Bun.spawn({
    // Thousands of streams need as many descriptors as we may have; shells start with fewer.
    cmd: ["sh", "-c", 'ulimit -n "$(ulimit -Hn)"; exec "$@"', name, ...command],
    cwd: directory,
    env: { ...ownEnvironment(), ...environment },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  alive.add(child);
  void child.exited.then(() => alive.delete(child));

  const complaints = new Tail();
  const output = new Tail();
  const waiting = new Map<string, (message: Readonly<Record<string, unknown>>) => void>();
  let early: Readonly<Record<string, unknown>>[] = [];
  let isHeard = true;
  void forEachLine(
    child.stderr,
    () => true,
    (line) => complaints.add(line),
  );
  void forEachLine(
    child.stdout,
    () => isHeard,
    (line) => {
      output.add(line);
      const message = parsed(line);
      if (message === null) return;
      onMessage?.(message);
      const wake = waiting.get(String(message["event"]));
      if (wake !== undefined) wake(message);
      else if (early.length < earlyMax) early.push(message);
      if (message["event"] === deafAfter) isHeard = false;
    },
  );

  return {
    pid: child.pid,
    startedAt,
    exited: child.exited,
    event: async (event, withinMs) => {
      const index = early.findIndex((message) => message["event"] === event);
      const arrived = early[index];
      if (arrived !== undefined) {
        early.splice(index, 1);
        return arrived;
      }
      const { promise, resolve, reject } = Promise.withResolvers<Readonly<Record<string, unknown>>>();
      const fail = (why: string) => reject(new Error(`${name} ${why}\n${complaints.text() || output.text()}`.trim()));
      const timer = setTimeout(() => fail(`did not say "${event}" within ${withinMs} ms`), withinMs);
      waiting.set(event, resolve);
      void child.exited.then((code) => setTimeout(() => fail(`ended with code ${code} before it said "${event}"`), 100));
      return promise.finally(() => {
        clearTimeout(timer);
        waiting.delete(event);
      });
    },
    forget: (event) => {
      early = early.filter((message) => message["event"] !== event);
    },
    hear: (is) => {
      isHeard = is;
    },
    tell: (line) => {
      void child.stdin.write(`${line}\n`);
      void child.stdin.flush();
    },
    stop: () => stop(child),
  };
}

export async function stopEverything(): Promise<void> {
  await Promise.all([...alive].map(stop));
  rmSync(scratch, { recursive: true, force: true });
}

process.on("exit", () => {
  for (const child of alive) endAll(familyOf(child.pid));
  rmSync(scratch, { recursive: true, force: true });
});

/** Binds and lets go: for programs that cannot say themselves which port they were given. */
export function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  const { port } = server;
  server.stop(true);
  return port;
}

/** Waits until a child answers at its address. One that has ended is not asked any more: that would cost the machine that is measured. */
export async function answers({ exited }: Running, url: string, withinMs: number): Promise<void> {
  const end: { code: number | null } = { code: null };
  void exited.then((code) => (end.code = code));
  const deadline = performance.now() + withinMs;
  while (performance.now() < deadline) {
    if (end.code !== null) throw new Error(`it ended with code ${end.code}`);
    const answered = await fetch(url, { signal: AbortSignal.timeout(1000) }).then(
      (response) => response.arrayBuffer().then(() => true),
      () => false,
    );
    if (answered) return;
    await Bun.sleep(20);
  }
  throw new Error(`nothing answered at ${url} within ${withinMs} ms`);
}

const earlyMax = 16;
const graceMs = 1000;

async function stop(child: Subprocess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const family = familyOf(child.pid);
  child.kill("SIGTERM");
  const timer = setTimeout(() => endAll(family), graceMs);
  await child.exited;
  clearTimeout(timer);
}

function endAll(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has already gone.
    }
  }
}

/** All traffic stays on loopback: no proxy of the surroundings may come between. */
function ownEnvironment(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value === undefined || /^(https?|all|no)_proxy$/i.test(name) ? [] : [[name, value] as [string, string]],
    ),
  );
}

async function forEachLine(stream: ReadableStream<Uint8Array>, isHeard: () => boolean, handle: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let unfinished = "";
  for await (const bytes of stream) {
    if (!isHeard()) {
      unfinished = "";
      continue;
    }
    const lines = (unfinished + decoder.decode(bytes, { stream: true })).split("\n");
    unfinished = lines.pop() ?? "";
    for (const line of lines) if (isHeard()) handle(line);
  }
}

function parsed(line: string): Readonly<Record<string, unknown>> | null {
  if (!line.startsWith("{")) return null;
  try {
    return JSON.parse(line) as Readonly<Record<string, unknown>>;
  } catch {
    return null;
  }
}

class Tail {
  private lines: string[] = [];

  add(line: string): void {
    this.lines.push(line);
    if (this.lines.length > 40) this.lines = this.lines.slice(-20);
  }

  text(): string {
    return this.lines.slice(-20).join("\n");
  }
}
