import { Lines } from "./lines.ts";
import { messageIn, type Message } from "./message.ts";
import { Tail } from "./tail.ts";

export interface ChildOptions {
  readonly command: readonly string[];
  readonly directory: string;
  /** The whole of its environment; ours where there is none. */
  readonly environment: Readonly<Record<string, string>> | null;
  readonly startMs: number;
  /** Is told what it says on its standard output, and of what it complains on the other one. */
  readonly onSign: (message: Message) => void;
  readonly onComplaint: (message: Message) => void;
}

/** How a child came to its end. */
export interface ChildEnd {
  /** It went by itself and in peace, as an engine does that nobody has asked for a while. */
  readonly inPeace: boolean;
  /** Such as `code 1` or `SIGKILL`. */
  readonly cause: string;
  readonly tail: string;
}

/** One process of an engine, from its start to its end. Its stdin stays open, so that its end tells it of ours. */
export class Child {
  /** What came of its start. */
  readonly started: Promise<"ready" | "late" | "ended">;
  /** It has ended, and everything it had to say was heard. */
  readonly ended: Promise<ChildEnd>;
  private readonly process: Bun.Subprocess<"pipe", "pipe", "pipe">;
  private settle: (start: "ready" | "late" | "ended") => void = () => {};

  /** Throws where the system cannot start it. */
  constructor(private readonly options: ChildOptions) {
    const { command, directory, environment, startMs } = options;
    this.process = Bun.spawn([...command], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
      // Not where the gateway was started: settings of the runtime that lie there are not meant for the engine.
      cwd: directory,
      // An interrupt from the terminal is for the gateway, which finishes its calls first.
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

  /** It has exited, though its last words may still be on their way. */
  get exited(): Promise<unknown> {
    return this.process.exited;
  }

  kill(signal: "SIGTERM" | "SIGKILL"): void {
    this.process.kill(signal);
  }

  private async end(): Promise<ChildEnd> {
    const { onSign, onComplaint } = this.options;
    const signs = linesOf((message) => {
      if (message.event === "ready") this.settle("ready");
      onSign(message);
    });
    const complaints = linesOf(onComplaint);
    const tail = new Tail();
    const heard = Promise.all([
      hear(this.process.stdout, (bytes) => signs.add(bytes)),
      hear(this.process.stderr, (bytes) => {
        tail.add(bytes);
        complaints.add(bytes);
      }),
    ]);
    await this.process.exited;
    // A process of its own that it left behind may hold its pipes open.
    await Promise.race([heard, Bun.sleep(lastWordsMs)]);
    const { exitCode, signalCode } = this.process;
    return { inPeace: exitCode === 0, cause: signalCode === null ? `code ${exitCode}` : String(signalCode), tail: tail.text };
  }
}

const lastWordsMs = 200;

/** Reads to the end, and never throws. What is not wanted is read too: a full pipe would stop the child. */
async function hear(stream: ReadableStream<Uint8Array>, heard: (bytes: Uint8Array) => void): Promise<void> {
  try {
    for await (const bytes of stream) heard(bytes);
  } catch {
    // The pipe broke, and the exit tells why.
  }
}

function linesOf(said: (message: Message) => void): Lines {
  return new Lines((line) => {
    const message = messageIn(line);
    if (message !== null) said(message);
  });
}
