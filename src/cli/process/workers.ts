import type { ListenPlace } from "./listen-problem.ts";
import { ReportRounds } from "./report-round.ts";
import {
  isReportsWanted,
  isWorkerAlive,
  isWorkerFreed,
  isWorkerReady,
  isWorkerReport,
  type ReportsWanted,
  type ReportWanted,
  type WorkerEnded,
  type WorkerOrder,
  type WorkerReady,
  type WorkerReports,
} from "./worker-messages.ts";

export interface WorkersOptions {
  readonly count: number;
  /** The command that starts a worker. The port is the one that the first worker got, and null for the first. */
  readonly command: (number: number, port: number | null) => readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly log: WorkersLog;
  /** The wait before a worker is restarted. It doubles, up to a limit, each time the worker dies soon after its start. */
  readonly pauseMs?: number;
  /** After this time without a message, a worker counts as hanging. */
  readonly silentMs?: number;
}

export interface WorkersLog {
  info(event: string, fields: Readonly<Record<string, unknown>>): void;
  warn(event: string, fields: Readonly<Record<string, unknown>>): void;
}

/** Why this number of workers is not allowed; null if it is. */
export function workerCountProblem(count: number, cores: number): string | null {
  const max = cores * perCoreMax;
  if (Number.isInteger(count) && count >= 1 && count <= max) return null;
  return `--workers must be a whole number from 1 to ${max}, which is ${perCoreMax} for each of the ${cores} cores`;
}

/** Throws if another program uses a port. With SO_REUSEPORT, whoever listens on it later would not notice. */
export function claimPort({ host, port }: ListenPlace): void {
  if (port !== 0) Bun.listen({ hostname: host, port, exclusive: true, socket: { data() {} } }).stop(true);
}

/** The error of listening on an address; null if it works. */
export function listenError(place: ListenPlace): unknown {
  try {
    claimPort(place);
    return null;
  } catch (error) {
    return error;
  }
}

/**
 * The parent of worker processes that share a port. It serves nothing itself: it starts the workers, restarts those that die or
 * hang, and passes signals on. The others start after the first one is ready, so a start that fails, fails once.
 */
export class Workers {
  /** Resolves with the exit code for the parent when all workers have ended. */
  readonly ended: Promise<number>;
  private readonly slots: WorkerSlot[];
  private readonly end: (code: number) => void;
  private readonly rounds = new ReportRounds();
  /** Workers that have ended, by their names in the store, until another one says that nothing is held for them any more. */
  private readonly leftBehind = new Map<string, EndedWorker>();
  private freeTimer: ReturnType<typeof setTimeout> | null = null;
  private port: number | null = null;
  private stopping = false;
  private failed = false;

  constructor(private readonly options: WorkersOptions) {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.ended = promise;
    this.end = resolve;
    this.slots = Array.from({ length: options.count }, (_, at) => ({
      number: at + 1,
      child: null,
      timer: null,
      earlyDeaths: 0,
      ready: false,
      member: null,
      missedChecks: 0,
    }));
    this.begin(this.slots[0]!);
    const checks = setInterval(() => this.killSilent(), this.silentMs / silentChecksMax);
    void promise.then(() => {
      clearInterval(checks);
      if (this.freeTimer !== null) clearTimeout(this.freeTimer);
    });
  }

  /** The first call lets workers finish their calls, the second ends them at once. */
  stop(lingers: boolean): void {
    const order: WorkerOrder = this.stopping ? "end" : lingers ? "stop" : "hurry";
    this.stopping = true;
    for (const slot of this.slots) {
      if (slot.timer !== null) clearTimeout(slot.timer);
      slot.timer = null;
      this.tell(slot, order);
      // A worker that is still starting serves nobody, and reads its orders only when it has started.
      if (!slot.ready) slot.child?.kill("SIGTERM");
    }
    if (order === "end") setTimeout(() => this.kill(), endMs).unref();
    this.endIfOver();
  }

  reload(): void {
    for (const slot of this.slots) this.tell(slot, "reload");
  }

  private get silentMs(): number {
    return this.options.silentMs ?? silentMsDefault;
  }

  /**
   * Kills workers that sent nothing for many checks in a row, so that they are restarted. It counts checks instead of time, because
   * after a suspend of the machine the clock has moved on although no worker hangs.
   */
  private killSilent(): void {
    for (const slot of this.slots) {
      if (slot.child === null || !slot.ready) continue;
      slot.missedChecks += 1;
      if (slot.missedChecks <= silentChecksMax) continue;
      const { number, child } = slot;
      const detail = "the worker hangs: it is killed and restarted";
      this.options.log.warn("worker_silent", { worker: number, pid: child.pid, silent_ms: this.silentMs, detail });
      slot.missedChecks = 0;
      child.kill("SIGKILL");
    }
  }

  private begin(slot: WorkerSlot): void {
    slot.timer = null;
    slot.ready = false;
    slot.missedChecks = 0;
    const beganMs = performance.now();
    const child = Bun.spawn([...this.options.command(slot.number, this.port)], {
      env: this.options.environment,
      stdio: ["ignore", "inherit", "inherit"],
      serialization: "json",
      ipc: (message) => {
        if (isWorkerReady(message)) this.isReady(slot, message);
        else if (isWorkerAlive(message)) slot.missedChecks = 0;
        else if (isWorkerFreed(message)) this.isFreed(message.workerFreed, slot);
        else if (isReportsWanted(message)) this.collectReports(slot, message);
        else if (isWorkerReport(message)) this.rounds.reported(message.reportOf, slot.number, message.report);
      },
    });
    slot.child = child;
    this.options.log.info("worker_started", { worker: slot.number, pid: child.pid });
    void child.exited.then(() => {
      slot.child = null;
      this.hasEnded(slot, child.exitCode, child.signalCode, performance.now() - beganMs);
    });
  }

  private isReady(slot: WorkerSlot, { port, member }: WorkerReady): void {
    slot.ready = true;
    slot.member = member ?? null;
    this.freeLeftovers();
    this.options.log.info("worker_ready", { worker: slot.number, pid: slot.child?.pid });
    if (this.port !== null) return;
    this.port = port;
    for (const other of this.slots) if (other !== slot && !this.stopping) this.begin(other);
  }

  private hasEnded(slot: WorkerSlot, code: number | null, signal: NodeJS.Signals | number | null, livedMs: number): void {
    if (this.stopping || this.port === null) {
      this.failed ||= code !== 0 && (slot.ready || !this.stopping);
      // The first worker could not start, and has printed why.
      if (!this.stopping) return this.end(code ?? 1);
      return this.endIfOver();
    }
    const endedMs = performance.now();
    if (slot.member !== null) this.leftBehind.set(slot.member, { number: slot.number, endedMs, asked: null, askedMs: 0 });
    slot.member = null;
    slot.earlyDeaths = slot.ready && livedMs > steadyMs ? 0 : slot.earlyDeaths + 1;
    const pauseMs = Math.min((this.options.pauseMs ?? pauseMsDefault) * 2 ** Math.max(0, slot.earlyDeaths - 1), pauseMsMax);
    this.options.log.warn("worker_ended", { worker: slot.number, code, signal, again_in_ms: pauseMs });
    slot.timer = setTimeout(() => this.begin(slot), pauseMs);
    this.freeLeftovers();
  }

  /**
   * One of the others frees the concurrency slots and the money of a worker that has ended, so that they need not expire. One that has
   * ended as well, or does not answer, is not waited for: the next one is asked.
   */
  private freeLeftovers(): void {
    if (this.freeTimer !== null) clearTimeout(this.freeTimer);
    this.freeTimer = null;
    const nowMs = performance.now();
    const able = this.slots.filter(({ ready, child }) => ready && child !== null);
    for (const [member, ended] of this.leftBehind) {
      if (nowMs - ended.endedMs > expiredAfterMs) {
        this.leftBehind.delete(member);
        continue;
      }
      const isAsked = able.some(({ child }) => child === ended.asked?.child) && nowMs - ended.askedMs < freeAgainMs;
      const other = able.find(({ number }) => number > (ended.asked?.number ?? 0)) ?? able[0];
      if (isAsked || other === undefined) continue;
      ended.asked = { number: other.number, child: other.child };
      ended.askedMs = nowMs;
      this.tell(other, { workerEnded: member });
    }
    if (this.leftBehind.size > 0) this.freeTimer = setTimeout(() => this.freeLeftovers(), freeAgainMs);
  }

  private isFreed(member: string, by: WorkerSlot): void {
    const ended = this.leftBehind.get(member);
    if (ended === undefined) return;
    this.leftBehind.delete(member);
    const afterMs = Math.round(performance.now() - ended.endedMs);
    this.options.log.info("worker_freed", { worker: ended.number, member, by: by.number, after_ms: afterMs });
  }

  private endIfOver(): void {
    if (this.slots.some(({ child }) => child !== null)) return;
    this.options.log.info("workers_ended", {});
    this.end(this.failed ? 1 : 0);
  }

  private collectReports(asker: WorkerSlot, { reportsWanted: question, about }: ReportsWanted): void {
    const others = this.slots.filter((slot) => slot !== asker && slot.ready);
    this.rounds.begin(
      others.map((slot) => ({ number: slot.number, ask: (round) => this.tell(slot, { reportWanted: round, about }) })),
      (reports) => this.tell(asker, { reportsFor: question, reports }),
    );
  }

  /** Returns whether there is a worker to tell. */
  private tell({ child }: WorkerSlot, message: WorkerOrder | WorkerEnded | ReportWanted | WorkerReports): boolean {
    try {
      child?.send(message);
      return child !== null;
    } catch {
      // The worker is ending.
      return false;
    }
  }

  private kill(): void {
    for (const { child } of this.slots) child?.kill("SIGKILL");
  }
}

interface WorkerSlot {
  readonly number: number;
  child: Bun.Subprocess | null;
  /** Restarts the worker. */
  timer: ReturnType<typeof setTimeout> | null;
  /** How often in a row it died soon after its start. */
  earlyDeaths: number;
  ready: boolean;
  /** Its name in the store, once it is ready. */
  member: string | null;
  /** Checks since its last message. */
  missedChecks: number;
}

/** A worker that has ended, and which of the others was asked last to free what it held. */
interface EndedWorker {
  readonly number: number;
  readonly endedMs: number;
  asked: Pick<WorkerSlot, "number" | "child"> | null;
  askedMs: number;
}

const perCoreMax = 4;
const pauseMsDefault = 100;
const pauseMsMax = 10_000;
/** A worker that ran for this long did not fail to start. */
const steadyMs = 10_000;
/** Far longer than any blocking work of a worker, even on an overloaded machine. */
const silentMsDefault = 30_000;
/** After this many checks without a message, a worker counts as hanging. */
const silentChecksMax = 10;
/** A worker that is well has freed everything by then. */
const freeAgainMs = 500;
/** By then everything has expired that a worker held. */
const expiredAfterMs = 600_000;
/** A worker that was told to end at once and still runs after this time is killed. */
const endMs = 2_000;
