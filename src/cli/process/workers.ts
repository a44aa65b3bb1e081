import { isWorkerAlive, isWorkerReady, type WorkerOrder } from "./worker-messages.ts";

export interface WorkersOptions {
  readonly count: number;
  /** What starts one of them; the port is the one that the first of them got, and null for the first. */
  readonly command: (number: number, port: number | null) => readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly log: WorkersLog;
  /** Further waits after a worker that died soon are twice as long as the one before, up to a bound. */
  readonly pauseMs?: number;
  /** A worker that took calls and has said nothing for so long hangs. */
  readonly silentMs?: number;
}

export interface WorkersLog {
  info(event: string, fields: Readonly<Record<string, unknown>>): void;
  warn(event: string, fields: Readonly<Record<string, unknown>>): void;
}

/** Why so many are not started; null where they are. */
export function refusedCount(count: number, cores: number): string | null {
  const max = cores * perCoreMax;
  if (Number.isInteger(count) && count >= 1 && count <= max) return null;
  return `--workers takes a whole number from 1 to ${max}: more than ${perCoreMax} for each of the ${cores} cores would only take turns`;
}

/** Why nobody can listen there; null where one can. Workers would not notice that it is taken: they share a port with whoever is willing to. */
export function triedToListen({ host, port }: { readonly host: string; readonly port: number }): unknown {
  if (port === 0) return null;
  try {
    Bun.listen({ hostname: host, port, exclusive: true, socket: { data() {} } }).stop(true);
    return null;
  } catch (error) {
    return error;
  }
}

/**
 * Processes of this program that share a port, and their parent, which serves nothing itself: it starts them, starts them
 * again when they die or hang, and passes on what it is told. The first one is up before the others begin: what it cannot do, they
 * could not either, and then nothing stays started.
 */
export class Workers {
  /** Resolves with the exit code for the parent when all of them have ended. */
  readonly ended: Promise<number>;
  private readonly places: Place[];
  private readonly end: (code: number) => void;
  private port: number | null = null;
  private stopping = false;
  private failed = false;

  constructor(private readonly options: WorkersOptions) {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.ended = promise;
    this.end = resolve;
    this.places = Array.from({ length: options.count }, (_, at) => ({
      number: at + 1,
      child: null,
      timer: null,
      pauses: 0,
      ready: false,
      unheard: 0,
    }));
    this.begin(this.places[0]!);
    const looks = setInterval(() => this.lookForSilence(), this.silentMs / looksMax);
    void promise.then(() => clearInterval(looks));
  }

  /** The first time they may finish what they do, the second time they may not. */
  stop(lingers: boolean): void {
    const order: WorkerOrder = this.stopping ? "end" : lingers ? "stop" : "hurry";
    this.stopping = true;
    for (const place of this.places) {
      if (place.timer !== null) clearTimeout(place.timer);
      place.timer = null;
      this.tell(place, order);
    }
    if (order === "end") setTimeout(() => this.kill(), endMs).unref();
    this.endIfOver();
  }

  reload(): void {
    for (const place of this.places) this.tell(place, "reload");
  }

  private get silentMs(): number {
    return this.options.silentMs ?? silentMsDefault;
  }

  /**
   * Ends those that were not heard of for many looks in a row; like others that end, they are started again. Looks are counted, and
   * not time: where the whole machine stood still, its clock went on, and nobody hangs for that.
   */
  private lookForSilence(): void {
    for (const place of this.places) {
      if (place.child === null || !place.ready) continue;
      place.unheard += 1;
      if (place.unheard <= looksMax) continue;
      const { number, child } = place;
      const detail = "it hangs: it is ended and started again";
      this.options.log.warn("worker_silent", { worker: number, pid: child.pid, silent_ms: this.silentMs, detail });
      place.unheard = 0;
      child.kill("SIGKILL");
    }
  }

  private begin(place: Place): void {
    place.timer = null;
    place.ready = false;
    place.unheard = 0;
    const beganMs = performance.now();
    const child = Bun.spawn([...this.options.command(place.number, this.port)], {
      env: this.options.environment,
      stdio: ["ignore", "inherit", "inherit"],
      serialization: "json",
      ipc: (message) => {
        if (isWorkerReady(message)) this.isReady(place, message.port);
        else if (isWorkerAlive(message)) place.unheard = 0;
      },
    });
    place.child = child;
    this.options.log.info("worker_started", { worker: place.number, pid: child.pid });
    void child.exited.then(() => {
      place.child = null;
      this.hasEnded(place, child.exitCode, child.signalCode, performance.now() - beganMs);
    });
  }

  private isReady(place: Place, port: number): void {
    place.ready = true;
    this.options.log.info("worker_ready", { worker: place.number, pid: place.child?.pid });
    if (this.port !== null) return;
    this.port = port;
    for (const other of this.places) if (other !== place && !this.stopping) this.begin(other);
  }

  private hasEnded(place: Place, code: number | null, signal: NodeJS.Signals | number | null, livedMs: number): void {
    if (this.stopping || this.port === null) {
      this.failed ||= code !== 0;
      // Nobody has served anything yet, and it has said why.
      if (!this.stopping) return this.end(code ?? 1);
      return this.endIfOver();
    }
    place.pauses = place.ready && livedMs > steadyMs ? 0 : place.pauses + 1;
    const pauseMs = Math.min((this.options.pauseMs ?? pauseMsDefault) * 2 ** Math.max(0, place.pauses - 1), pauseMsMax);
    this.options.log.warn("worker_ended", { worker: place.number, code, signal, again_in_ms: pauseMs });
    place.timer = setTimeout(() => this.begin(place), pauseMs);
  }

  private endIfOver(): void {
    if (this.places.some(({ child }) => child !== null)) return;
    this.options.log.info("workers_ended", {});
    this.end(this.failed ? 1 : 0);
  }

  private tell({ child }: Place, order: WorkerOrder): void {
    try {
      child?.send(order);
    } catch {
      // It is just ending.
    }
  }

  private kill(): void {
    for (const { child } of this.places) child?.kill("SIGKILL");
  }
}

interface Place {
  readonly number: number;
  child: Bun.Subprocess | null;
  /** Begins it again. */
  timer: ReturnType<typeof setTimeout> | null;
  /** How often in a row it died before it was of much use. */
  pauses: number;
  ready: boolean;
  /** How often it was looked after since it said something. */
  unheard: number;
}

const perCoreMax = 4;
const pauseMsDefault = 100;
const pauseMsMax = 10_000;
/** One that lived for so long did not die of how it was started. */
const steadyMs = 10_000;
/** Far longer than anything a worker does in one go, also on a machine that is short of everything. */
const silentMsDefault = 30_000;
/** How often a silent worker is looked after before it counts as one that hangs. */
const looksMax = 10;
/** A worker that was told to end at once and is still there by then hangs. */
const endMs = 2_000;
