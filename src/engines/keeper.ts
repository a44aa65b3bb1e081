import { existsSync, rmSync } from "node:fs";
import { failure, type Failure } from "../operations/failure.ts";
import { makeAllowance } from "./allowance.ts";
import { Child, type ChildEnd } from "./child.ts";
import type { Engine } from "./engine.ts";
import { watchMemory } from "./memory-watch.ts";
import type { Message } from "./message.ts";
import { makeStarvation } from "./starvation.ts";
import { Watchdog } from "./watchdog.ts";

export interface KeeperOptions {
  readonly engine: Engine;
  readonly command: (engine: Engine, socket: string) => readonly string[];
  /** A path for the next socket, in a folder that nobody else can enter. Throws when the disk fails. */
  readonly place: (engine: Engine) => SocketPlace;
  readonly environment: Readonly<Record<string, string>> | null;
  readonly startMs: number;
  /** How long one that has work may give no sign of life. */
  readonly stuckMs: number;
  /** How much memory it may hold. */
  readonly memoryMax: number;
  readonly nowMs: () => number;
  readonly onEvent: (event: string, fields: Record<string, unknown>) => void;
}

export interface SocketPlace {
  readonly directory: string;
  readonly socket: string;
}

/**
 * Keeps one engine at hand: started when it is asked for, and again when it has ended. One that keeps crashing is left
 * alone for a while that grows, in which whoever asks is told why.
 */
export class Keeper {
  private socket: Promise<string | Failure> | null = null;
  private child: Child | null = null;
  /** Where the child listens, while it is ready. */
  private ready: string | null = null;
  /** Was ended by us, which is no crash. */
  private dismissed: Child | null = null;
  /** Was ended by us because it held too much memory. What it was asked is to blame and not the engine, which need not rest. */
  private overgrown: Child | null = null;
  /** The child has exited, and its last words are being heard. */
  private ending: Promise<void> | null = null;
  private crashes = 0;
  private restsUntilMs = -Infinity;
  private lastCrash = "";
  private crashedSocket: string | null = null;
  private crashedForMemory = false;
  private readonly mayComplain: () => boolean;
  private stopped = false;

  constructor(private readonly options: KeeperOptions) {
    this.mayComplain = makeAllowance(complaintsMax, complaintsMs, options.nowMs);
  }

  /**
   * The socket of the engine, as soon as it is ready. Whoever asks while it starts waits for the same start. Whoever found
   * nobody at a socket that he was given says so, and gets another one, unless it was a crash: what he asked may be why.
   * `wasAlone`: nobody else was being served there, so that what he asked is why it held too much memory.
   */
  async ask(lost: string | null = null, wasAlone = false): Promise<string | Failure> {
    await this.leaving(lost);
    await this.ending;
    if (this.stopped) return shuttingDown();
    if (lost !== null && lost === this.crashedSocket)
      return this.crashedForMemory && wasAlone ? tooLarge(this.lastCrash) : failure("disconnected", this.lastCrash);
    const restMs = this.restsUntilMs - this.options.nowMs();
    if (this.socket === null && restMs > 0) {
      return failure("unreachable", `${this.lastCrash}; it is not started again for ${Math.ceil(restMs)} ms`, {
        scope: "deployment",
      });
    }
    this.socket ??= this.start().then((started) => {
      if (typeof started !== "string") this.socket = null;
      return started;
    });
    return this.socket;
  }

  /** Resolves when it is gone. */
  async stop(): Promise<void> {
    this.stopped = true;
    if (this.child !== null) await ended(this.child);
  }

  kill(): void {
    this.stopped = true;
    this.child?.kill("SIGKILL");
  }

  /** Waits for one that is about to end by itself, and ends one that nobody can reach any more. */
  private async leaving(lost: string | null): Promise<void> {
    const { child, ready } = this;
    if (child === null || ready === null) return;
    // One that was killed goes in any case, though a process that holds much takes its time on a busy machine.
    if (child === this.overgrown) await child.exited;
    else if (lost === ready) await Promise.race([child.exited, Bun.sleep(leaveMs)]);
    if (this.child !== child || existsSync(ready)) return;
    this.dismissed = child;
    await ended(child);
  }

  private async start(): Promise<string | Failure> {
    const { engine, command, place, environment, startMs, stuckMs, memoryMax, nowMs, onEvent } = this.options;
    const startedMs = nowMs();
    try {
      const { directory, socket } = place(engine);
      const watchdog = new Watchdog({
        stuckMs,
        starvedMs: () => starvedMs(),
        onStuck: () => {
          onEvent("engine_stuck", { engine, pid: child.pid, ms: stuckMs });
          child.kill("SIGKILL");
        },
      });
      const onSign = ({ event }: Message): void => {
        if (event === "beat") watchdog.beat();
        else if (event === "rest") watchdog.rest();
      };
      const onComplaint = (message: Message): void => this.complained(message);
      const child = new Child({ command: command(engine, socket), directory, environment, startMs, onSign, onComplaint });
      const starvedMs = makeStarvation(child.pid);
      this.child = child;
      const memory = watchMemory(child.pid, memoryMax, (bytes) => {
        onEvent("engine_too_large", { engine, pid: child.pid, bytes, max: memoryMax });
        this.overgrown = child;
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
      // Where it has exited already, this has no effect.
      if (!this.stopped) child.kill("SIGKILL");
      const end = await child.ended;
      this.child = null;
      rmSync(socket, { force: true });
      if (this.stopped) return shuttingDown();
      const what = start === "late" ? `was not ready within ${startMs} ms` : `ended with ${end.cause} before it was ready`;
      return this.crashed(`the ${engine} engine ${what}`, end.tail, startedMs);
    } catch (error) {
      return this.crashed(`the ${engine} engine cannot be started`, error instanceof Error ? error.message : String(error), startedMs);
    }
  }

  private async watch(child: Child, startedMs: number, socket: string): Promise<void> {
    await child.exited;
    this.socket = null;
    this.child = null;
    this.ready = null;
    rmSync(socket, { force: true });
    this.ending = child.ended.then((end) => {
      if (child === this.overgrown) return this.endedForMemory(socket);
      this.ended(child === this.dismissed ? { ...end, inPeace: true } : end, startedMs, socket);
    });
  }

  private ended({ inPeace, cause, tail }: ChildEnd, startedMs: number, socket: string): void {
    const { engine, onEvent } = this.options;
    this.ending = null;
    this.dismissed = null;
    if (this.stopped) return;
    this.crashedSocket = inPeace ? null : socket;
    this.crashedForMemory = false;
    if (!inPeace) return void this.crashed(`the ${engine} engine ended with ${cause}`, tail, startedMs);
    this.crashes = 0;
    onEvent("engine_exited", { engine });
  }

  /** The next call starts another at once: else a few such files would close the engine for everybody. */
  private endedForMemory(socket: string): void {
    const { engine, memoryMax } = this.options;
    this.ending = null;
    this.overgrown = null;
    if (this.stopped) return;
    this.crashedSocket = socket;
    this.crashedForMemory = true;
    this.lastCrash = `the ${engine} engine was ended because it held more than ${Math.round(memoryMax / 1024 ** 2)} MiB of memory`;
  }

  private complained({ event, error }: Message): void {
    const { engine, onEvent } = this.options;
    if (this.mayComplain()) onEvent(`engine_${event}`, { engine, detail: error ?? "" });
  }

  private crashed(what: string, words: string, startedMs: number): Failure {
    const { engine, nowMs, onEvent } = this.options;
    const now = nowMs();
    this.crashes = now - startedMs < steadyMs ? this.crashes + 1 : 1;
    const restMs = restAfter(this.crashes);
    this.restsUntilMs = now + restMs;
    this.lastCrash = words === "" ? what : `${what}: ${words}`;
    onEvent("engine_crashed", { engine, detail: this.lastCrash, crashes: this.crashes, rest_ms: restMs });
    // The other engines are well: only this one's models are out.
    return failure("unreachable", this.lastCrash, { scope: "deployment" });
  }
}

/** Asks it to end, insists after a while, and resolves when it is gone. */
async function ended(child: Child): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), graceMs);
  await child.exited;
  clearTimeout(timer);
}

/** A single crash costs nothing; every further one twice as much as the one before. */
function restAfter(crashes: number): number {
  return crashes < 2 ? 0 : Math.min(restMsMax, firstRestMs * 2 ** (crashes - 2));
}

/** Another channel may be able to do it. */
function tooLarge(detail: string): Failure {
  return failure("unsupported", detail, {
    message: "This request needs more memory than a local engine may use. Send a shorter or a simpler file.",
  });
}

function shuttingDown(): Failure {
  return failure("shutting_down", "the engines are stopped");
}

const firstRestMs = 1_000;
const restMsMax = 60_000;
/** Who lived for so long has recovered from whatever happened before. */
const steadyMs = 60_000;
const graceMs = 2_000;
/** How long the end of one that closed its connections may take to be noticed. */
const leaveMs = 500;
const complaintsMax = 10;
const complaintsMs = 60_000;
