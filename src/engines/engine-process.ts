import { LineSplitter, parseEngineMessage, type EngineMessage, LastOutput } from "./engine-output.ts";

export interface EngineProcessOptions {
  readonly command: readonly string[];
  readonly directory: string;
  /** The complete environment of the process; null inherits the gateway's. */
  readonly environment: Readonly<Record<string, string>> | null;
  readonly startMs: number;
  /** Receive the messages that the process prints on stdout and on stderr. */
  readonly onStatus: (message: EngineMessage) => void;
  readonly onError: (message: EngineMessage) => void;
}

/** How an engine's process exited. */
export interface ProcessExit {
  /** It exited with code 0, as an idle engine does. */
  readonly clean: boolean;
  /** Such as `code 1` or `SIGKILL`. */
  readonly cause: string;
  readonly lastOutput: string;
}

/** One process of an engine, from its start to its exit. Its stdin stays open: when the gateway dies, the pipe closes and the engine exits. */
export class EngineProcess {
  /** The outcome of the start. */
  readonly started: Promise<"ready" | "late" | "ended">;
  /** Resolves when it has exited and its output was read. */
  readonly ended: Promise<ProcessExit>;
  private readonly process: Bun.Subprocess<"pipe", "pipe", "pipe">;
  private settle: (start: "ready" | "late" | "ended") => void = () => {};

  /** Throws when the process cannot be started. */
  constructor(private readonly options: EngineProcessOptions) {
    const { command, directory, environment, startMs } = options;
    this.process = Bun.spawn([...command], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
      // Not the gateway's working directory: a bunfig.toml or .env there is not meant for the engine.
      cwd: directory,
      // Ctrl-C in a terminal must reach the gateway only, which finishes its calls before it stops the engines.
      detached: true,
      ...(environment === null ? undefined : { env: environment }),
    });
    this.started = new Promise((resolve) => (this.settle = resolve));
    const timer = setTimeout(() => this.settle("late"), startMs);
    void this.started.then(() => clearTimeout(timer));
    void this.process.exited.then(() => this.settle("ended"));
    this.ended = this.end();
  }

  get pid(): number {
    return this.process.pid;
  }

  /** Resolves when it has exited; its last output may not have been read yet. */
  get exited(): Promise<unknown> {
    return this.process.exited;
  }

  kill(signal: "SIGTERM" | "SIGKILL"): void {
    this.process.kill(signal);
  }

  private async end(): Promise<ProcessExit> {
    const { onStatus, onError } = this.options;
    const statuses = messagesOf((message) => {
      if (message.event === "ready") this.settle("ready");
      onStatus(message);
    });
    const errors = messagesOf(onError);
    const lastOutput = new LastOutput();
    const drained = Promise.all([
      readAll(this.process.stdout, (bytes) => statuses.add(bytes)),
      readAll(this.process.stderr, (bytes) => {
        lastOutput.add(bytes);
        errors.add(bytes);
      }),
    ]);
    await this.process.exited;
    // A grandchild may hold the pipes open.
    await Promise.race([drained, Bun.sleep(pipeDrainMs)]);
    const { exitCode, signalCode } = this.process;
    return { clean: exitCode === 0, cause: signalCode === null ? `code ${exitCode}` : String(signalCode), lastOutput: lastOutput.text };
  }
}

const pipeDrainMs = 200;

/** Reads to the end and never throws. Everything must be read, because a full pipe would block the engine. */
async function readAll(stream: ReadableStream<Uint8Array>, onBytes: (bytes: Uint8Array) => void): Promise<void> {
  try {
    for await (const bytes of stream) onBytes(bytes);
  } catch {
    // The exit code tells why the pipe broke.
  }
}

function messagesOf(onMessage: (message: EngineMessage) => void): LineSplitter {
  return new LineSplitter((line) => {
    const message = parseEngineMessage(line);
    if (message !== null) onMessage(message);
  });
}
