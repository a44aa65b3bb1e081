import { failure, type Failure } from "../operations/failure.ts";
import { engineFor, type Engine } from "./engine.ts";
import { Keeper, type SocketPlace } from "./keeper.ts";
import { engineMemoryMax } from "./memory-watch.ts";
import { SocketFolder } from "./socket-folder.ts";

export interface EnginesOptions {
  /**
   * The command that runs an engine behind a socket. It prints `{"event":"ready"}` and ends when its stdin does. Once it
   * has printed `{"event":"beat"}` it does so every second or so until `{"event":"rest"}`; what fails, it tells as
   * `{"event":"failed","error":"…"}` on stderr.
   */
  readonly start: (engine: Engine, socket: string) => readonly string[];
  /** Where the folder with the sockets is made, unless its path is too long for a socket. */
  readonly directory: string;
  readonly onEvent: (event: string, fields: Record<string, unknown>) => void;
  /** How long an engine may take to be ready. */
  readonly startMs?: number;
  /** How long an engine that has work may give no sign of life before it is killed. Time without a processor does not count. */
  readonly stuckMs?: number;
  /** How many bytes of memory an engine may hold before it is killed. */
  readonly memoryMax?: (engine: Engine) => number;
  /** The whole environment of the engines; without it they have ours. */
  readonly environment?: Record<string, string>;
  /** Milliseconds on a clock that never jumps. */
  readonly nowMs?: () => number;
}

/** The local engines, each in a process of its own that runs while it is needed. */
export class Engines {
  private readonly keepers = new Map<Engine, Keeper>();
  private readonly folder: SocketFolder;
  private stopped = false;

  constructor(private readonly options: EnginesOptions) {
    this.folder = new SocketFolder(options.directory);
  }

  /**
   * The socket of the engine that serves this path, started if need be. Never throws. `lost` is one that was given before,
   * and where nobody answered; `wasAlone`: nobody else was waiting for an answer there.
   */
  socketFor(path: string, lost: string | null = null, wasAlone = false): Promise<string | Failure> {
    if (this.stopped) return Promise.resolve(failure("shutting_down", "the engines are stopped"));
    const engine = engineFor(path);
    if (engine === null) return Promise.resolve(failure("misconfigured", "no local engine serves this path"));
    let keeper = this.keepers.get(engine);
    if (keeper === undefined) this.keepers.set(engine, (keeper = this.keeperOf(engine)));
    return keeper.ask(lost, wasAlone);
  }

  /** Ends them all, those that do not listen by force, and resolves when they are gone. */
  async stop(): Promise<void> {
    this.stopped = true;
    const gone = Array.from(this.keepers.values(), (keeper) => keeper.stop());
    this.folder.remove();
    await Promise.all(gone);
  }

  /** Ends them all at once, by force. */
  kill(): void {
    this.stopped = true;
    for (const keeper of this.keepers.values()) keeper.kill();
    this.folder.remove();
  }

  private keeperOf(engine: Engine): Keeper {
    const { start, onEvent, startMs = 30_000, stuckMs = 60_000, environment = null, nowMs = () => performance.now() } = this.options;
    const { memoryMax = engineMemoryMax } = this.options;
    const place = (engine: Engine): SocketPlace => this.folder.place(engine);
    return new Keeper({ engine, command: start, place, environment, startMs, stuckMs, memoryMax: memoryMax(engine), nowMs, onEvent });
  }
}
