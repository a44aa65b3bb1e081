import { RedisClient } from "bun";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort, GuardedServer, startOnFreePort } from "./guarded.ts";
import { findRedis, lacking, type Binaries, type Skipped } from "./obtain.ts";

/** Starts a Sentinel that watches a primary under the name `main`. */
export async function startSentinel(primary: TestRedis): Promise<TestRedis | Skipped> {
  const binaries = findRedis();
  if ("skipped" in binaries || !primary.controlled) return lacking("a Sentinel takes a redis-server or valkey-server of our own");
  return startOwn(binaries, ({ host, port, folder }) => {
    // It takes its settings of a file only, which it rewrites.
    const file = join(folder, "sentinel.conf");
    writeFileSync(file, `port ${port}\nbind ${host}\ndir ${folder}\nsentinel monitor main ${primary.host} ${primary.port} 1\n`);
    return [file, "--sentinel"];
  });
}

/** Starts a real Redis or Valkey on a free port of loopback; else takes the one that REDIS_URL names; or tells why there is none. */
export async function startRedis(settings: Readonly<Record<string, string>> = {}): Promise<TestRedis | Skipped> {
  const binaries = findRedis();
  if ("skipped" in binaries) {
    const named = process.env["REDIS_URL"];
    return named === undefined || named === "" ? lacking(binaries.skipped) : new NamedRedis(named);
  }
  return startOwn(binaries, (place) => serverFlags(place, settings));
}

type FlagsOf = (place: ServerPlace) => readonly string[];

interface ServerPlace {
  readonly host: string;
  readonly port: number;
  readonly folder: string;
}

function serverFlags({ host, port, folder }: ServerPlace, more: Readonly<Record<string, string>>): readonly string[] {
  const settings = { port: String(port), bind: host, dir: folder, save: "", appendonly: "no", ...more };
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
}

async function startOwn(binaries: Binaries, flags: FlagsOf): Promise<TestRedis> {
  const guarded = new GuardedServer("redis");
  try {
    return await startOnFreePort(() => new OwnRedis(binaries, guarded, flags));
  } catch (error) {
    await guarded.stop();
    throw error;
  }
}

export interface TestRedis extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Whether its process is ours: what belongs to somebody else is neither stopped nor killed, and those methods throw. */
  readonly controlled: boolean;
  /** SIGSTOP: connections stand, and nobody answers. */
  pause(): Promise<void>;
  resume(): void;
  kill9(): Promise<void>;
  /** Starts it again on the same port, empty. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

class OwnRedis implements TestRedis {
  readonly controlled = true;
  readonly host = "127.0.0.1";
  readonly port = freePort();
  readonly url = `redis://${this.host}:${this.port}`;
  readonly #binaries: Binaries;
  readonly #guarded: GuardedServer;
  readonly #flags: FlagsOf;

  constructor(binaries: Binaries, guarded: GuardedServer, flags: FlagsOf) {
    this.#binaries = binaries;
    this.#guarded = guarded;
    this.#flags = flags;
  }

  async pause(): Promise<void> {
    await this.#guarded.pause();
  }

  resume(): void {
    this.#guarded.resume();
  }

  async kill9(): Promise<void> {
    await this.#guarded.kill();
  }

  async start(): Promise<void> {
    const flags = this.#flags({ host: this.host, port: this.port, folder: this.#guarded.folder });
    const { path, libraries } = this.#binaries;
    await this.#guarded.launch([path, ...flags], { libraries, user: {} }, async () => {
      if (!/eady to accept connections|Sentinel ID is/.test(this.#guarded.output)) return false;
      await ping(this.url);
      return true;
    });
  }

  async stop(): Promise<void> {
    await this.#guarded.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

class NamedRedis implements TestRedis {
  readonly controlled = false;
  readonly url: string;
  readonly host: string;
  readonly port: number;

  constructor(url: string) {
    this.url = url;
    const { hostname, port } = new URL(url);
    this.host = hostname;
    this.port = port === "" ? 6379 : Number(port);
  }

  async pause(): Promise<void> {
    throw notOurs("pause");
  }

  resume(): void {
    throw notOurs("resume");
  }

  async kill9(): Promise<void> {
    throw notOurs("kill");
  }

  async start(): Promise<void> {
    throw notOurs("start");
  }

  async stop(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}
}

function notOurs(what: string): Error {
  return new Error(`the server of REDIS_URL is not ours to ${what}; unset it and put redis-server or valkey-server on the PATH`);
}

async function ping(url: string): Promise<void> {
  const client = new RedisClient(url, { connectionTimeout: 2_000, autoReconnect: false, enableOfflineQueue: true });
  try {
    await client.send("PING", []);
  } finally {
    client.close();
  }
}
