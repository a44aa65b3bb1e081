import { join } from "node:path";
import { bun, type Running, start } from "./processes.ts";
import type { Counters } from "./upstream.ts";

/** Something that can be asked what clients ask a gateway. The same load goes to each; only the names in the report differ. */
export interface Target {
  readonly name: TargetName;
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly pid: number;
  /** From its start until it could be asked. */
  readonly readyMs: number;
  stop(): Promise<void>;
}

export type TargetName = "direct" | "nginx" | "bare" | "floor" | "gateway" | "peer";

export const clientKey = "bench-key-0123456789abcdef0123456789abcdef";
export const clientHeaders = { authorization: `Bearer ${clientKey}` } as const;

export interface Upstream {
  readonly ports: readonly number[];
  readonly origin: string;
  readonly pid: number;
  counters(): Promise<Counters>;
}

export async function startUpstream(): Promise<Upstream> {
  const running = start({ name: "upstream", command: [...bun, join(import.meta.dir, "upstream.ts"), "3"] });
  const { ports } = (await running.event("listening", startsWithinMs)) as { ports: readonly number[] };
  const origin = `http://127.0.0.1:${ports[0]}`;
  return {
    ports,
    origin,
    pid: running.pid,
    counters: async () => (await (await fetch(`${origin}/counters`)).json()) as Counters,
  };
}

/** The upstream itself as a target: what the client would see with nothing in between. */
export function direct(upstream: Upstream): Target {
  return {
    name: "direct",
    origin: upstream.origin,
    headers: clientHeaders,
    pid: upstream.pid,
    readyMs: 0,
    stop: () => Promise.resolve(),
  };
}

export async function startFloor(upstream: Upstream): Promise<Target> {
  const running = start({ name: "floor", command: [...bun, join(import.meta.dir, "floor.ts"), upstream.origin, clientKey] });
  const { url } = (await running.event("listening", startsWithinMs)) as { url: string };
  return started("floor", running, { origin: url });
}

/** Sockets and nothing else: what the runtime itself takes. */
export async function startBare(upstream: Upstream): Promise<Target> {
  const running = start({ name: "bare", command: [...bun, join(import.meta.dir, "bare.ts"), upstream.origin] });
  const { url } = (await running.event("listening", startsWithinMs)) as { url: string };
  return started("bare", running, { origin: url });
}

export function started(
  name: TargetName,
  running: Running,
  { origin, headers = clientHeaders }: { origin: string; headers?: Readonly<Record<string, string>> },
): Target {
  return { name, origin, headers, pid: running.pid, readyMs: performance.now() - running.startedAt, stop: () => running.stop() };
}

export const startsWithinMs = 15_000;
