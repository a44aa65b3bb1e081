import { existsSync, rmSync } from "node:fs";
import { failure, type Failure } from "../operations/failure.ts";
import { EngineProcess, type ProcessExit } from "./engine-process.ts";
import type { EngineKind } from "./command.ts";
import { watchMemory } from "./memory-watch.ts";
import { type EngineMessage, makeLogLimit } from "./engine-output.ts";
import { makeStarvation } from "./starvation.ts";
import { Watchdog } from "./watchdog.ts";

export interface EngineSupervisorOptions {
  readonly engine: EngineKind;
  readonly command: (engine: EngineKind, socket: string) => readonly string[];
  /** Makes a path for the next socket, in a directory of mode 0700. Throws when the disk fails. */
  readonly newSocketPath: (engine: EngineKind) => SocketPath;
  readonly environment: Readonly<Record<string, string>> | null;
  readonly startMs: number;
  /** How long a busy engine may send no heartbeat. */
  readonly stuckMs: number;
  /** How much resident memory it may use, in bytes. */
  readonly memoryMax: number;
  readonly nowMs: () => number;
  readonly onEvent: (event: string, fields: Record<string, unknown>) => void;
}

/** `backoff`: it has crashed repeatedly, and is not started again for a while. */
export type EngineState = "running" | "starting" | "backoff" | "stopped";

export interface SocketPath {
  readonly directory: string;
  readonly socket: string;
}

/**
 * Starts one engine when it is needed, and again after it has exited. When it keeps crashing, restarts are delayed with
 * exponential backoff; until then, calls fail with the reason of the last crash.
 */
export class EngineSupervisor {
  private socket: Promise<string | Failure> | null = null;
  private child: EngineProcess | null = null;
  /** The socket of the process, while it is ready. */
  private ready: string | null = null;
  /** The process that we stopped: its exit is no crash. */
  private stoppedByUs: EngineProcess | null = null;
  /** The process that was killed for its memory use. The request is to blame, not the engine, so there is no backoff. */
  private killedForMemory: EngineProcess | null = null;
  /** The process has exited, and its last output is being read. */
  private ending: Promise<void> | null = null;
  private crashes = 0;
  private backoffUntilMs = -Infinity;
  private lastCrash = "";
  private crashedSocket: string | null = null;
  private crashedForMemory = false;
  private readonly mayLogError: () => boolean;
  private stopped = false;

  constructor(private readonly options: EngineSupervisorOptions) {
    this.mayLogError = makeLogLimit(errorLogsMax, errorLogsMs, options.nowMs);
  }

  /**
   * Resolves with the engine's socket when it is ready; concurrent callers share one start. `lost` is a socket returned before
   * that no longer answers: the caller gets another one, unless the engine crashed there, for the request may be the reason.
   * `wasAlone` says that no other request was being served there, so this one used too much memory.
   */
  async socketFor(lost: string | null = null, wasAlone = false): Promise<string | Failure> {
    await this.awaitExit(lost);
    await this.ending;
    if (this.stopped) return shuttingDown();
    if (lost !== null && lost === this.crashedSocket)
      return this.crashedForMemory && wasAlone ? tooLarge(this.lastCrash) : failure("disconnected", this.lastCrash);
    const backoffMs = this.backoffUntilMs - this.options.nowMs();
    if (this.socket === null && backoffMs > 0) {
      return failure("unreachable", `${this.lastCrash}; it is not started again for ${Math.ceil(backoffMs)} ms`, {
        scope: "deployment",
      });
    }
    this.socket ??= this.start().then((started) => {
      if (typeof started !== "string") this.socket = null;
      return started;
    });
    return this.socket;
  }

  get state(): EngineState {
    if (this.ready !== null) return "running";
    if (this.socket !== null) return "starting";
    return this.backoffUntilMs > this.options.nowMs() ? "backoff" : "stopped";
  }

  /** Resolves when the process has exited. */
  async stop(): Promise<void> {
    this.stopped = true;
    if (this.child !== null) await terminate(this.child);
  }

  kill(): void {
    this.stopped = true;
    this.child?.kill("SIGKILL");
  }

  /** Waits for a process that is about to exit, and stops one whose socket is gone. */
  private async awaitExit(lost: string | null): Promise<void> {
    const { child, ready } = this;
    if (child === null || ready === null) return;
    // A killed process always exits, but freeing much memory takes time on a busy machine.
    if (child === this.killedForMemory) await child.exited;
    else if (lost === ready) await Promise.race([child.exited, Bun.sleep(exitGraceMs)]);
    if (this.child !== child || existsSync(ready)) return;
    this.stoppedByUs = child;
    await terminate(child);
  }

  private async start(): Promise<string | Failure> {
    const { engine, command, newSocketPath, environment, startMs, stuckMs, memoryMax, nowMs, onEvent } = this.options;
    const startedMs = nowMs();
    try {
      const { directory, socket } = newSocketPath(engine);
      const watchdog = new Watchdog({
        stuckMs,
        starvedMs: () => starvedMs(),
        onStuck: () => {
          onEvent("engine_stuck", { engine, pid: child.pid, ms: stuckMs });
          child.kill("SIGKILL");
        },
      });
      const onStatus = ({ event }: EngineMessage): void => {
        if (event === "beat") watchdog.beat();
        else if (event === "rest") watchdog.rest();
      };
      const onError = (message: EngineMessage): void => this.reportError(message);
      const child = new EngineProcess({ command: command(engine, socket), directory, environment, startMs, onStatus, onError });
      const starvedMs = makeStarvation(child.pid);
      this.child = child;
      const memory = watchMemory(child.pid, memoryMax, (bytes) => {
        onEvent("engine_too_large", { engine, pid: child.pid, bytes, max: memoryMax });
        this.killedForMemory = child;
        child.kill("SIGKILL");
      });
      void child.ended.then(() => {
        watchdog.rest();
        memory.stop();
      });
      const start = await child.started;
      if (start === "ready" && !this.stopped) {
        onEvent("engine_ready", { engine, pid: child.pid, ms: Math.round(nowMs() - startedMs) });
        this.ready = socket;
        void this.watch(child, startedMs, socket);
        return socket;
      }
      // This has no effect when it has exited already.
      if (!this.stopped) child.kill("SIGKILL");
      const end = await child.ended;
      this.child = null;
      rmSync(socket, { force: true });
      if (this.stopped) return shuttingDown();
      const cause = start === "late" ? `was not ready within ${startMs} ms` : `ended with ${end.cause} before it was ready`;
      return this.crashed(`the ${engine} engine ${cause}`, end.lastOutput, startedMs);
    } catch (error) {
      return this.crashed(`the ${engine} engine cannot be started`, error instanceof Error ? error.message : String(error), startedMs);
    }
  }

  private async watch(child: EngineProcess, startedMs: number, socket: string): Promise<void> {
    await child.exited;
    this.socket = null;
    this.child = null;
    this.ready = null;
    rmSync(socket, { force: true });
    this.ending = child.ended.then((end) => {
      if (child === this.killedForMemory) return this.endedForMemory(socket);
      this.ended(child === this.stoppedByUs ? { ...end, clean: true } : end, startedMs, socket);
    });
  }

  private ended({ clean, cause, lastOutput }: ProcessExit, startedMs: number, socket: string): void {
    const { engine, onEvent } = this.options;
    this.ending = null;
    this.stoppedByUs = null;
    if (this.stopped) return;
    this.crashedSocket = clean ? null : socket;
    this.crashedForMemory = false;
    if (!clean) return void this.crashed(`the ${engine} engine ended with ${cause}`, lastOutput, startedMs);
    this.crashes = 0;
    onEvent("engine_exited", { engine });
  }

  /** No backoff: the next call restarts the engine at once. Otherwise a few such files would block it for all clients. */
  private endedForMemory(socket: string): void {
    const { engine, memoryMax } = this.options;
    this.ending = null;
    this.killedForMemory = null;
    if (this.stopped) return;
    this.crashedSocket = socket;
    this.crashedForMemory = true;
    this.lastCrash = `the ${engine} engine was ended because it held more than ${Math.round(memoryMax / 1024 ** 2)} MiB of memory`;
  }

  private reportError({ event, error }: EngineMessage): void {
    const { engine, onEvent } = this.options;
    if (this.mayLogError()) onEvent(`engine_${event}`, { engine, detail: error ?? "" });
  }

  private crashed(cause: string, detail: string, startedMs: number): Failure {
    const { engine, nowMs, onEvent } = this.options;
    const now = nowMs();
    this.crashes = now - startedMs < stableMs ? this.crashes + 1 : 1;
    const backoffMs = backoffAfter(this.crashes);
    this.backoffUntilMs = now + backoffMs;
    this.lastCrash = detail === "" ? cause : `${cause}: ${detail}`;
    onEvent("engine_crashed", { engine, detail: this.lastCrash, crashes: this.crashes, rest_ms: backoffMs });
    // Only the models of this engine are affected.
    return failure("unreachable", this.lastCrash, { scope: "deployment" });
  }
}

/** Sends SIGTERM, then SIGKILL after a grace period, and resolves when the process has exited. */
async function terminate(child: EngineProcess): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), graceMs);
  await child.exited;
  clearTimeout(timer);
}

/** A single crash costs no delay; each further one doubles it. */
function backoffAfter(crashes: number): number {
  return crashes < 2 ? 0 : Math.min(backoffMsMax, firstBackoffMs * 2 ** (crashes - 2));
}

/** `unsupported`, so that another channel is tried. */
function tooLarge(detail: string): Failure {
  return failure("unsupported", detail, {
    message: "This request needs more memory than a local engine may use. Send a shorter or a simpler file.",
  });
}

function shuttingDown(): Failure {
  return failure("shutting_down", "the engines are stopped");
}

const firstBackoffMs = 1_000;
const backoffMsMax = 60_000;
/** After running for this long, earlier crashes are forgotten. */
const stableMs = 60_000;
const graceMs = 2_000;
/** How long to wait for the exit of a process that closed its connections. */
const exitGraceMs = 500;
const errorLogsMax = 10;
const errorLogsMs = 60_000;
