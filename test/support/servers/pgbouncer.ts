import { SQL } from "bun";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort, GuardedServer, startOnFreePort } from "./guarded.ts";
import { findPgBouncer, type Binaries, type Skipped } from "./obtain.ts";
import type { TestPostgres } from "./postgres.ts";

/** Starts a real PgBouncer in front of a server, which gives each transaction one of a few connections; or tells why there is none. */
export async function startPgBouncer(to: TestPostgres, poolSize: number, more: PgBouncerSettings = {}): Promise<TestPgBouncer | Skipped> {
  const binaries = findPgBouncer();
  // Unlike the servers, it may be missing where those are required: it comes from one system only.
  if ("skipped" in binaries) return binaries;
  const guarded = new GuardedServer("pgbouncer");
  try {
    return await startOnFreePort(() => new TestPgBouncer(binaries, guarded, to, poolSize, more));
  } catch (error) {
    await guarded.stop();
    throw error;
  }
}

/** Lines of its file that differ from the usual ones. */
export type PgBouncerSettings = Readonly<Record<string, string | number>>;

export class TestPgBouncer implements AsyncDisposable {
  readonly port = freePort();
  readonly #binaries: Binaries;
  readonly #guarded: GuardedServer;
  readonly #to: TestPostgres;
  readonly #poolSize: number;
  readonly #more: PgBouncerSettings;

  constructor(binaries: Binaries, guarded: GuardedServer, to: TestPostgres, poolSize: number, more: PgBouncerSettings) {
    this.#binaries = binaries;
    this.#guarded = guarded;
    this.#to = to;
    this.#poolSize = poolSize;
    this.#more = more;
  }

  urlOf(database: string): string {
    return this.#to.urlOf(database, this.port);
  }

  async start(): Promise<void> {
    const { folder } = this.#guarded;
    const { host, port, user } = this.#to;
    const file = join(folder, "pgbouncer.ini");
    const settings = {
      listen_addr: host,
      listen_port: this.port,
      unix_socket_dir: "",
      auth_type: "any",
      pool_mode: "transaction",
      default_pool_size: this.#poolSize,
      max_client_conn: 200,
      logfile: "",
      ...this.#more,
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
    writeFileSync(file, `[databases]\n* = host=${host} port=${port} user=${user}\n[pgbouncer]\n${lines.join("\n")}\n`);
    chmodSync(folder, 0o755);
    // It refuses to be run by root.
    const asSomebody = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
    const { path, libraries } = this.#binaries;
    await this.#guarded.launch([path, ...asSomebody, file], { libraries, user: {} }, async () => {
      if (!this.#guarded.output.includes("process up")) return false;
      const client = new SQL({ url: this.urlOf("postgres"), max: 1, prepare: false });
      try {
        await client.unsafe("select 1");
      } finally {
        await client.close({ timeout: 0 });
      }
      return true;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#guarded.stop();
  }
}
