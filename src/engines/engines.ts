import { failure, type Failure } from "../operations/failure.ts";
import { engineFor, type EngineKind } from "./command.ts";
import { EngineSupervisor, type EngineState, type SocketPath } from "./engine-supervisor.ts";
import { engineMemoryMax } from "./memory-watch.ts";
import { SocketFolder } from "./socket-folder.ts";

export interface EnginesOptions {
  /**
   * The command that runs an engine on a socket. It prints `{"event":"ready"}` and exits when its stdin closes. After its
   * first `{"event":"beat"}` it repeats that about every second until `{"event":"rest"}`. It reports errors as
   * `{"event":"failed","error":"…"}` on stderr.
   */
  readonly start: (engine: EngineKind, socket: string) => readonly string[];
  /** The parent of the socket directory, unless its path is too long for a socket. */
  readonly directory: string;
  readonly onEvent: (event: string, fields: Record<string, unknown>) => void;
  /** How long an engine may take to be ready. */
  readonly startMs?: number;
  /** How long a busy engine may send no heartbeat before it is killed. Time without a CPU does not count. */
  readonly stuckMs?: number;
  /** How many bytes of resident memory an engine may use before it is killed. */
  readonly memoryMax?: (engine: EngineKind) => number;
  /** The complete environment of the engines; without it they inherit ours. */
  readonly environment?: Record<string, string>;
  /** Milliseconds of a monotonic clock. */
  readonly nowMs?: () => number;
}

/** The local engines, each in its own process that runs while it is needed. */
export class Engines {
  private readonly supervisors = new Map<EngineKind, EngineSupervisor>();
  private readonly folder: SocketFolder;
  private stopped = false;

  constructor(private readonly options: EnginesOptions) {
    this.folder = new SocketFolder(options.directory);
  }

  /**
   * Resolves with the socket of the engine that serves this path, and starts the engine if necessary. Never throws. `lost` is
   * a socket returned before that no longer answers; `wasAlone` says that no other request was waiting there.
   */
  socketFor(path: string, lost: string | null = null, wasAlone = false): Promise<string | Failure> {
    if (this.stopped) return Promise.resolve(failure("shutting_down", "the engines are stopped"));
    const engine = engineFor(path);
    if (engine === null) return Promise.resolve(failure("misconfigured", "no local engine serves this path"));
    let supervisor = this.supervisors.get(engine);
    if (supervisor === undefined) this.supervisors.set(engine, (supervisor = this.makeSupervisor(engine)));
    return supervisor.socketFor(lost, wasAlone);
  }

  /** The engines that were needed so far, and what they do now. */
  states(): readonly { readonly engine: EngineKind; readonly state: EngineState }[] {
    return Array.from(this.supervisors, ([engine, supervisor]) => ({ engine, state: supervisor.state }));
  }

  /** Stops all engines, if necessary with SIGKILL, and resolves when they have exited. */
  async stop(): Promise<void> {
    this.stopped = true;
    const exits = Array.from(this.supervisors.values(), (supervisor) => supervisor.stop());
    this.folder.remove();
    await Promise.all(exits);
  }

  /** Kills all engines at once. */
  kill(): void {
    this.stopped = true;
    for (const supervisor of this.supervisors.values()) supervisor.kill();
    this.folder.remove();
  }

  private makeSupervisor(engine: EngineKind): EngineSupervisor {
    const { start, onEvent, startMs = 30_000, stuckMs = 60_000, environment = null, nowMs = () => performance.now() } = this.options;
    const { memoryMax = engineMemoryMax } = this.options;
    const newSocketPath = (kind: EngineKind): SocketPath => this.folder.newSocketPath(kind);
    return new EngineSupervisor({
      engine,
      command: start,
      newSocketPath,
      environment,
      startMs,
      stuckMs,
      memoryMax: memoryMax(engine),
      nowMs,
      onEvent,
    });
  }
}
