import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { AudioSplit, AudioPart, SplitAudio, SplitFailure } from "../../gateway/ports.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import type { StoredFile } from "../../media/stored-file.ts";
import { ByteReader } from "./byte-reader.ts";
import { PartFile } from "./part-file.ts";
import { Semaphore, type Permit } from "./semaphore.ts";

export interface SplitOptions {
  /** The program that splits recordings. Without it or a codec's package, no recording is split. */
  readonly program?: URL;
  /** Its complete environment: ours holds secrets. */
  readonly environment?: Readonly<Record<string, string>>;
  /** How many recordings are split at once, each by its own process, and how many may wait for that. */
  readonly processesMax?: number;
  readonly waitingMax?: number;
  /** How long the next part may take before the process counts as stuck. */
  readonly stallMs?: number;
}

const defaultProgram = new URL("../../../packages/embedded/src/split/main.ts", import.meta.url);

/** `stop` kills the processes that split recordings, and no other is started. */
export type StoppableSplitAudio = SplitAudio & { readonly stop: () => void };

/** Splits recordings in separate processes: decoding is CPU-heavy, and a malicious file may crash a decoder. */
export function makeSplitAudio(options: SplitOptions = {}): StoppableSplitAudio {
  const { program = defaultProgram, environment = {}, processesMax = 4, waitingMax = 64, stallMs = 300_000 } = options;
  const path = fileURLToPath(program);
  const semaphore = new Semaphore(processesMax, waitingMax);
  const running = new Set<AudioSplit>();
  let isStopped = false;
  const splitAudio: SplitAudio = (recording, secondsMax) => {
    if (isStopped) return alwaysFails({ kind: "failed", failure: failure("shutting_down", "no recording is cut any more") });
    if (!existsSync(path)) return alwaysFails({ kind: "absent", missing: "the program that cuts recordings" });
    const permit = semaphore.acquire();
    if (permit === null) return alwaysFails({ kind: "failed", failure: failure("saturated", "too many recordings wait to be cut") });
    const command = [process.execPath, path, "--seconds", String(secondsMax)];
    const split = new RunningSplit({ recording, permit, stallMs, environment, command, onEnd: () => running.delete(split) });
    running.add(split);
    return split;
  };
  const stop = (): void => {
    isStopped = true;
    for (const split of running) split.stop();
  };
  return Object.assign(splitAudio, { stop });
}

function alwaysFails(reason: SplitFailure): AudioSplit {
  return { next: () => Promise.resolve(reason), stop: () => {} };
}

interface RunningSplitOptions {
  readonly recording: StoredFile;
  readonly permit: Permit;
  readonly stallMs: number;
  readonly environment: Readonly<Record<string, string>>;
  readonly command: readonly string[];
  readonly onEnd: () => void;
}

type SplitProcess = Bun.Subprocess<"pipe", "pipe", "ignore">;

class RunningSplit implements AudioSplit {
  readonly #options: RunningSplitOptions;
  #child: SplitProcess | null = null;
  #output: ByteReader | null = null;
  #failure: SplitFailure | null = null;
  #isOver = false;

  constructor(options: RunningSplitOptions) {
    this.#options = options;
  }

  async next(): Promise<AudioPart | SplitFailure | null> {
    if (this.#output === null) {
      await this.#options.permit.ready;
      if (!this.#isOver) this.#begin();
    }
    if (this.#isOver || this.#output === null) return this.#failure;
    const stalled = setTimeout(() => this.#fail("the process that cuts recordings is stuck"), this.#options.stallMs);
    try {
      return (await this.#part(this.#output)) ?? this.#failure;
    } finally {
      clearTimeout(stalled);
    }
  }

  stop(): void {
    this.#end({ kind: "failed", failure: stopped });
  }

  #begin(): void {
    const { command, environment, recording } = this.#options;
    const child = spawnOrNull([...command, "--bytes", String(recording.length)], environment);
    if (child === null) return void this.#fail("the process that cuts recordings could not be started");
    this.#child = child;
    this.#output = new ByteReader(child.stdout);
    void this.#feed(child.stdin, recording);
  }

  /** Backpressure comes from the process, which reads as fast as its parts are consumed. */
  async #feed(input: Bun.FileSink, recording: StoredFile): Promise<void> {
    for (let at = 0; at < recording.length && !this.#isOver;) {
      let bytes: Uint8Array;
      try {
        bytes = await recording.read(at, feedBytes);
      } catch {
        this.#fail("a recording could not be read back");
        return;
      }
      if (this.#isOver) return;
      if (bytes.length === 0) return void this.#fail("a recording is shorter than it was");
      try {
        await input.write(bytes);
        await input.flush();
      } catch {
        // The process stopped reading; its output tells why.
        return;
      }
      at += bytes.length;
    }
  }

  async #part(output: ByteReader): Promise<AudioPart | null> {
    const message = await readMessage(output);
    if (this.#isOver) return null;
    switch (message?.type) {
      case "part":
        return this.#stored(message, output);
      case "end":
        return this.#end(null);
      case "failed":
        return this.#end(splitFailureOf(message));
      case undefined:
        return this.#fail("the process that cuts recordings ended early");
    }
  }

  async #stored(message: PartMessage, output: ByteReader): Promise<AudioPart | null> {
    let file: PartFile | null = null;
    try {
      file = new PartFile();
      const into = file;
      if (!(await output.pass(message.bytes, (bytes) => into.append(bytes)))) {
        file.dispose();
        return this.#isOver ? null : this.#fail("the process that cuts recordings ended early");
      }
    } catch (error) {
      file?.dispose();
      return this.#end({ kind: "failed", failure: notStored(error) });
    }
    const stored = file;
    if (this.#isOver) {
      stored.dispose();
      return null;
    }
    const { start, end, overlap, goesOn } = message;
    const content = { name: "part.wav", type: "audio/wav", content: stored.stored() };
    return { kind: "part", start, end, overlap, goesOn, file: content, dispose: () => stored.dispose() };
  }

  #fail(detail: string): null {
    return this.#end({ kind: "failed", failure: failure("internal", detail) });
  }

  /** Only the first reason is file. */
  #end(reason: SplitFailure | null): null {
    if (this.#isOver) return null;
    this.#isOver = true;
    this.#failure = reason;
    this.#child?.kill("SIGKILL");
    this.#options.permit.release();
    this.#options.onEnd();
    return null;
  }
}

function spawnOrNull(command: readonly string[], environment: Readonly<Record<string, string>>): SplitProcess | null {
  try {
    return Bun.spawn([...command], { env: environment, stdin: "pipe", stdout: "pipe", stderr: "ignore" });
  } catch {
    return null;
  }
}

const feedBytes = 256 * 1024;
const messageBytesMax = 64 * 1024;
const stopped = failure("deadline", "splitting a recording was stopped");

interface PartMessage {
  readonly type: "part";
  readonly start: number;
  readonly end: number;
  readonly overlap: number;
  readonly goesOn: boolean;
  readonly bytes: number;
}

interface FailedMessage {
  readonly type: "failed";
  readonly reason: "undecodable" | "absent" | "broken";
  readonly message: string;
}

type SplitMessage = PartMessage | FailedMessage | { readonly type: "end" };

async function readMessage(output: ByteReader): Promise<SplitMessage | null> {
  const size = await output.take(4);
  if (size === null) return null;
  const length = new DataView(size.buffer, size.byteOffset, 4).getUint32(0, true);
  if (length > messageBytesMax) return null;
  const bytes = await output.take(length);
  try {
    return bytes === null ? null : (JSON.parse(new TextDecoder().decode(bytes)) as SplitMessage);
  } catch {
    return null;
  }
}

function splitFailureOf({ reason, message }: FailedMessage): SplitFailure {
  if (reason === "absent") return { kind: "absent", missing: "a codec" };
  if (reason === "broken") return { kind: "failed", failure: failure("internal", `the process that cuts recordings failed: ${message}`) };
  return { kind: "failed", failure: undecodable(message) };
}

function undecodable(message: string): Failure {
  return failure("invalid_request", "a recording could not be decoded", {
    message: `The file is too long for one request, and it could not be cut into parts: ${message}`,
    status: 400,
    type: "invalid_request_error",
    code: "invalid_value",
    param: "file",
  });
}

/** The system's error code, such as ENOSPC, is only logged. */
function notStored(error: unknown): Failure {
  const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
  return failure("internal", `a part of a recording could not be written to the temporary directory: ${code}`, {
    message: "The gateway has no disk space for the parts of this recording at the moment. Try again later.",
  });
}
