import { SQL } from "bun";
import { chmodSync, chownSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { folderInMemory, freePort, GuardedServer, startOnFreePort } from "./guarded.ts";
import { findPostgres, lacking, type Binaries, type Skipped } from "./obtain.ts";

export interface PostgresOptions {
  /** Whether a commit waits for the disk, as in earnest. A kill -9 loses nothing either way: only a lost machine would. */
  readonly fsync?: boolean;
  /** Further settings, such as `{ max_connections: "20" }`. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** A primary, and a standby that follows it. */
export interface PostgresPair {
  readonly primary: TestPostgres;
  readonly standby: TestPostgres;
}

/** Starts a real PostgreSQL on a free port of loopback, with an empty cluster of its own; or tells why there is none. */
export async function startPostgres(options: PostgresOptions = {}): Promise<TestPostgres | Skipped> {
  const binaries = findPostgres();
  if ("skipped" in binaries) return lacking(binaries.skipped);
  const guarded = guardedFor(options);
  try {
    makeCluster(binaries, guarded.folder);
    return await startOnFreePort(() => new TestPostgres(binaries, guarded, options));
  } catch (error) {
    await guarded.stop();
    throw error;
  }
}

/**
 * Starts a primary and a hot standby that streams from it. A commit waits until the standby has it (synchronous replication), so that
 * nothing that was confirmed is lost with the primary, unless `settings` say otherwise.
 */
export async function startPostgresPair(options: PostgresOptions = {}): Promise<PostgresPair | Skipped> {
  const binaries = findPostgres();
  if ("skipped" in binaries) return lacking(binaries.skipped);
  const [one, other] = [guardedFor(options), guardedFor(options)];
  try {
    makeCluster(binaries, one.folder);
    // Nothing has been written yet, so that a copy of the files is a base backup. Not every package brings pg_basebackup.
    giveToSomebody(other.folder);
    runAsSomebody(["cp", "-R", "-p", dataIn(one.folder), dataIn(other.folder)], other.folder);
    runAsSomebody(["touch", join(dataIn(other.folder), "standby.signal")], other.folder);
    const settings = { synchronous_standby_names: "*", wal_keep_size: "256MB", ...options.settings };
    const primary = await startOnFreePort(() => new TestPostgres(binaries, one, { ...options, settings }));
    const { host, port, user } = primary;
    const follows = {
      primary_conninfo: `host=${host} port=${port} user=${user} application_name=standby`,
      wal_retrieve_retry_interval: "100ms",
    };
    const standby = await startOnFreePort(() => new TestPostgres(binaries, other, { ...options, settings: follows }));
    return { primary, standby };
  } catch (error) {
    await Promise.all([one.stop(), other.stop()]);
    throw error;
  }
}

export class TestPostgres implements AsyncDisposable {
  readonly version: string;
  readonly host = "127.0.0.1";
  readonly port = freePort();
  readonly user = "postgres";
  /** Of the database that comes with it; `freshDatabase` gives one that nobody else has. */
  readonly url = this.urlOf("postgres");
  readonly #binaries: Binaries;
  readonly #guarded: GuardedServer;
  readonly #options: PostgresOptions;
  #databases = 0;

  constructor(binaries: Binaries, guarded: GuardedServer, options: PostgresOptions) {
    this.version = binaries.version;
    this.#binaries = binaries;
    this.#guarded = guarded;
    this.#options = options;
  }

  /** The address of a database; `port` may be that of a proxy in front of the server. */
  urlOf(database: string, port = this.port): string {
    return `postgres://${this.user}@${this.host}:${port}/${database}`;
  }

  /** Makes a database, empty or as another one that nobody is connected to, and gives its address. */
  async freshDatabase(like?: string): Promise<string> {
    this.#databases += 1;
    const name = `fresh_${this.#databases}`;
    const template = like === undefined ? "" : ` TEMPLATE ${new URL(like).pathname.slice(1)}`;
    // By default each page is written to the log as well. Without fsync, a copy of the files takes less than half of that.
    const strategy = this.#options.fsync === false && Number.parseInt(this.version) >= 15 ? " STRATEGY FILE_COPY" : "";
    await this.#once((sql) => sql.unsafe(`CREATE DATABASE ${name}${template}${strategy}`));
    return this.urlOf(name);
  }

  /** Turns a standby into a primary; resolves when it takes writes. */
  async promote(): Promise<void> {
    await this.#once((sql) => sql`SELECT pg_promote(true, 60)`);
  }

  get folder(): string {
    return this.#guarded.folder;
  }

  /** The last of what it wrote. */
  get output(): string {
    return this.#guarded.output;
  }

  /** SIGSTOP to all of its processes: connections stand, and nobody answers. */
  async pause(): Promise<void> {
    await this.#guarded.pause();
  }

  resume(): void {
    this.#guarded.resume();
  }

  /** SIGKILL to all of its processes at once, as a lost machine would. */
  async kill9(): Promise<void> {
    await this.#guarded.kill();
  }

  /** Starts it again, on the same data and port. */
  async start(): Promise<void> {
    const { folder } = this.#guarded;
    const data = dataIn(folder);
    // What a killed one leaves behind would hold up the next, should its number have been given to somebody else.
    for (const stale of [join(data, "postmaster.pid"), socketIn(folder, this.port), `${socketIn(folder, this.port)}.lock`]) {
      rmSync(stale, { force: true });
    }
    const settings = {
      port: String(this.port),
      listen_addresses: this.host,
      // The system allows about a hundred characters for the path of a socket.
      unix_socket_directories: socketIn(folder, this.port).length < 100 ? folder : "",
      fsync: this.#options.fsync === false ? "off" : "on",
      max_connections: "100",
      shared_buffers: "32MB",
      ...this.#options.settings,
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const command = [join(this.#binaries.path, "postgres"), "-D", data, ...flags];
    await this.#guarded.launch(command, { libraries: null, user: somebody() }, () => this.#serves());
  }

  async stop(): Promise<void> {
    await this.#guarded.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #serves(): Promise<boolean> {
    // Asking before it listens would cost a long wait of the client's.
    if (!/ready to accept (read-only )?connections/.test(this.#guarded.output)) return false;
    await this.#once((sql) => sql`SELECT 1`);
    return true;
  }

  async #once(ask: (sql: SQL) => Promise<unknown>): Promise<void> {
    const sql = new SQL({ url: this.url, max: 1 });
    try {
      await ask(sql);
    } finally {
      await sql.close({ timeout: 0 });
    }
  }
}

function guardedFor({ fsync }: PostgresOptions): GuardedServer {
  return fsync === false ? new GuardedServer("postgres", folderInMemory()) : new GuardedServer("postgres");
}

/** An empty cluster. To make one costs more than the server's start: within one run of the suite it is made once, and copied. */
function makeCluster(binaries: Binaries, folder: string): void {
  giveToSomebody(folder);
  const pattern = process.env["SLUICE_TEST_CLUSTER"] ?? "";
  if (pattern === "") {
    initialise(binaries, folder, dataIn(folder));
    return;
  }
  if (!existsSync(dataIn(pattern))) {
    giveToSomebody(pattern);
    const making = join(pattern, `making-${process.pid}`);
    initialise(binaries, pattern, making);
    try {
      renameSync(making, dataIn(pattern));
    } catch {
      // Another file, beside this one, was sooner.
      rmSync(making, { recursive: true, force: true });
    }
  }
  runAsSomebody(["cp", "-R", "-p", dataIn(pattern), dataIn(folder)], folder);
}

function initialise(binaries: Binaries, folder: string, data: string): void {
  const flags = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"];
  runAsSomebody([join(binaries.path, "initdb"), "-D", data, ...flags], folder);
}

function giveToSomebody(folder: string): void {
  const { uid, gid } = somebody();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  chmodSync(folder, 0o755);
}

function runAsSomebody(command: string[], folder: string): void {
  const { success, stdout, stderr } = Bun.spawnSync(command, {
    env: { PATH: process.env["PATH"] ?? "" },
    cwd: folder,
    timeout: 60_000,
    stdin: "ignore",
    ...somebody(),
  });
  if (!success) throw new Error(`${command[0]} failed:\n${stdout.toString()}${stderr.toString()}`);
}

function dataIn(folder: string): string {
  return join(folder, "data");
}

function socketIn(folder: string, port: number): string {
  return join(folder, `.s.PGSQL.${port}`);
}

/** PostgreSQL refuses to be run by root, who therefore runs it as somebody without rights. */
function somebody(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const known = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  const entry = ["postgres", "nobody"].map((name) => known.find(([user]) => user === name)).find((found) => found !== undefined);
  return { uid: Number(entry?.[2] ?? 65_534), gid: Number(entry?.[3] ?? 65_534) };
}
