import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../eventually.ts";

/**
 * A server's processes, and a guard that outlives the test: a shell in a session of its own that waits for the end of
 * a pipe. However the test's process ends, also by kill -9, the system closes the pipe; the guard then ends the server
 * and removes its folder.
 */
export class GuardedServer {
  /** All of its files; gone when it is stopped. */
  readonly folder: string;
  /** The last of what the server wrote. */
  output = "";
  readonly #guard: Bun.Subprocess<"pipe", "ignore", "ignore">;
  #child: Bun.Subprocess<"ignore", "pipe", "pipe"> | null = null;

  constructor(name: string, parent = tmpdir()) {
    this.folder = mkdtempSync(join(parent, `sluice-${name}-`));
    const file = join(this.folder, pidFile);
    writeFileSync(file, "");
    // The server may run as somebody else.
    chmodSync(file, 0o666);
    this.#guard = Bun.spawn(["sh", "-c", guard, "sh", this.folder], { stdin: "pipe", stdout: "ignore", stderr: "ignore", detached: true });
    this.#guard.unref();
  }

  get running(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Starts it and waits until it serves; tells what it said when it does not. */
  async launch(command: readonly string[], options: LaunchOptions, serves: () => Promise<boolean>): Promise<void> {
    if (this.running) throw new Error("the server is running already");
    // Its number is known to the guard before the server is what runs under it.
    const child = Bun.spawn(["sh", "-c", 'echo $$ > "$0" && exec "$@"', join(this.folder, pidFile), ...command], {
      env: { PATH: process.env["PATH"] ?? "", ...(options.libraries === null ? {} : { LD_LIBRARY_PATH: options.libraries }) },
      cwd: this.folder,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      detached: true,
      ...options.user,
    });
    child.unref();
    this.#child = child;
    this.output = "";
    const followed = Promise.all([this.#follow(child.stdout), this.#follow(child.stderr)]);
    const ready = async (): Promise<boolean> => {
      if (!this.running) {
        await followed;
        throw new Error(`${command[0]} ended; it said:\n${this.output}`);
      }
      return serves();
    };
    await eventually(`${command[0]} serves`, ready, startMsMax).catch(async (error: unknown) => {
      await this.kill();
      throw error;
    });
  }

  /** SIGSTOP, to the parent first, so that it begets no more: connections are still taken by the system, and nobody answers. */
  async pause(): Promise<void> {
    const parent = this.#pid();
    signal("SIGSTOP", [parent]);
    await eventually("all of its processes are stopped", () => {
      // One that just ended stays dead in the list, as its parent takes no more note of it.
      const running = familyOf(parent).filter((pid) => ![null, "T"].includes(stateOf(pid)));
      signal("SIGSTOP", running);
      return running.length === 0;
    });
  }

  resume(): void {
    signal("SIGCONT", familyOf(this.#pid()).toReversed());
  }

  /** SIGKILL to every one of its processes; resolves when none is left. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === null || !this.running) return;
    const family = familyOf(child.pid);
    signal("SIGKILL", family);
    await child.exited;
    await eventually("all of its processes are gone", () => family.every((pid) => stateOf(pid) === null));
  }

  /** Ends it as it likes to be ended, and removes all it had. */
  async stop(): Promise<void> {
    await this.#guard.stdin.end();
    await this.#guard.exited;
    await this.#child?.exited;
    rmSync(this.folder, { recursive: true, force: true });
  }

  #pid(): number {
    if (this.#child === null || !this.running) throw new Error("the server is not running");
    return this.#child.pid;
  }

  async #follow(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) this.output = (this.output + decoder.decode(bytes, { stream: true })).slice(-outputMax);
  }
}

export interface LaunchOptions {
  readonly libraries: string | null;
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/**
 * A port that is free, and below those that the system gives to clients: while the server is down, none of the clients
 * that try again and again may be given the very port they look for.
 */
export function freePort(): number {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = 12_000 + Math.floor(Math.random() * 18_000);
    try {
      Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } }).stop(true);
      return port;
    } catch {
      // Somebody has it.
    }
  }
  throw new Error("no free port was found");
}

/**
 * Starts a server that is not ours to test; again, on another port, where it did not start, as somebody may have taken
 * the port in between. What it said is printed, so that it is not lost where the next start succeeds.
 */
export async function startOnFreePort<Server extends { start(): Promise<void> }>(create: () => Server): Promise<Server> {
  for (let tries = 1; ; tries += 1) {
    const server = create();
    try {
      await server.start();
      return server;
    } catch (error) {
      if (tries === 3) throw error;
      console.error(`a server for the tests did not start, and is started again: ${String(error)}`);
    }
  }
}

/**
 * For servers whose files need not survive this machine: in memory where there is plenty. PostgreSQL makes a thousand files of each
 * cluster and three hundred of each database, and on a disk it takes five times as much processor time to make and to remove them.
 */
export function folderInMemory(): string {
  try {
    const { bavail, bsize } = statfsSync(memory);
    return bavail * bsize > memoryBytesMin ? memory : tmpdir();
  } catch {
    return tmpdir();
  }
}

const memory = "/dev/shm";
/** Several times what the servers of all files that run at a time have. */
const memoryBytesMin = 4 * 1024 ** 3;

const startMsMax = 30_000;
const outputMax = 20_000;
const pidFile = "server.pid";

// It opens the file with the server's number first, because the folder may be removed before the guard hears that the test has ended.
// Both PostgreSQL and Redis end orderly at SIGINT, dropping their clients; two seconds later there is no asking.
const guard = `
trap '' INT TERM HUP
exec 3< "$1/${pidFile}"
cat > /dev/null
pid=$(cat <&3)
if [ -n "$pid" ]; then
  family() {
    cat "/proc/$pid/task/$pid/children" 2> /dev/null || ps -A -o pid= -o ppid= | awk -v parent="$pid" '$2 == parent { print $1 }'
  }
  alive() { kill -0 "$pid" 2> /dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2> /dev/null; }
  if alive; then
    children=$(family)
    kill -CONT $children $pid 2> /dev/null
    kill -INT $pid
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do alive || break; sleep 0.1; done
    children="$children $(family)"
    if alive; then kill -KILL $pid $children 2> /dev/null; fi
  fi
fi
rm -rf "$1"
`;

function signal(name: NodeJS.Signals, pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It has gone by itself in the meantime.
    }
  }
}

/** The process and its children, as they are now. */
function familyOf(parent: number): readonly number[] {
  return [parent, ...processes().flatMap(({ pid, ppid }) => (ppid === parent ? [pid] : []))];
}

/** Its letter as `ps` shows it; null when it is gone, or dead and only waits for somebody to take note of it. */
function stateOf(wanted: number): string | null {
  const state = processes().find(({ pid }) => pid === wanted)?.state ?? null;
  return state === "Z" || state === "X" ? null : state;
}

interface Process {
  readonly pid: number;
  readonly ppid: number;
  readonly state: string;
}

function processes(): readonly Process[] {
  if (process.platform !== "linux") {
    const { stdout } = Bun.spawnSync(["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "state="]);
    return stdout
      .toString()
      .trim()
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .map(([pid, ppid, state]) => ({ pid: Number(pid), ppid: Number(ppid), state: state?.[0] ?? "" }));
  }
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // The name of the program stands in brackets and may hold anything.
        const [state = "", ppid] = readFileSync(`/proc/${name}/stat`, "latin1")
          .replace(/^.*\) /s, "")
          .split(" ");
        return [{ pid: Number(name), ppid: Number(ppid), state }];
      } catch {
        return [];
      }
    });
}
