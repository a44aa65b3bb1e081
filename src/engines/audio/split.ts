import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { AudioCutting, AudioPart, CutAudio, CutTrouble } from "../../gateway/ports.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import type { StoredFile } from "../../media/stored-file.ts";
import { ByteReader } from "./split-bytes.ts";
import { SplitFile } from "./split-file.ts";
import { Turns, type Turn } from "./split-turns.ts";

export interface SplitOptions {
  /** The program that cuts. Where it or a codec's package is not installed, nothing is cut. */
  readonly program?: URL;
  /** All that it may know of our environment, which is where secrets are. */
  readonly environment?: Readonly<Record<string, string>>;
  /** How many recordings are cut at once, each by a process of its own, and how many may wait for that. */
  readonly processesMax?: number;
  readonly waitingMax?: number;
  /** How long the next part may take before the process is taken for stuck. */
  readonly stallMs?: number;
}

const defaultProgram = new URL("../../../packages/embedded/src/split/main.ts", import.meta.url);

/** Cuts, until it is stopped: then the processes that cut are killed at once, and no other is started. */
export type StoppableCutAudio = CutAudio & { readonly stop: () => void };

/** Cuts recordings in processes of their own: decoding is heavy, and a file may be made to break a decoder. */
export function makeCutAudio(options: SplitOptions = {}): StoppableCutAudio {
  const { program = defaultProgram, environment = {}, processesMax = 4, waitingMax = 64, stallMs = 300_000 } = options;
  const path = fileURLToPath(program);
  const turns = new Turns(processesMax, waitingMax);
  const running = new Set<AudioCutting>();
  let isStopped = false;
  const cut: CutAudio = (recording, secondsMax) => {
    if (isStopped) return never({ kind: "failed", failure: failure("shutting_down", "no recording is cut any more") });
    if (!existsSync(path)) return never({ kind: "absent", missing: "the package @sluice/embedded" });
    const turn = turns.take();
    if (turn === null) return never({ kind: "failed", failure: failure("saturated", "too many recordings wait to be cut") });
    const command = [process.execPath, path, "--seconds", String(secondsMax)];
    const cutting = new Cutting({ recording, turn, stallMs, environment, command, onEnd: () => running.delete(cutting) });
    running.add(cutting);
    return cutting;
  };
  const stop = (): void => {
    isStopped = true;
    for (const cutting of running) cutting.stop();
  };
  return Object.assign(cut, { stop });
}

function never(trouble: CutTrouble): AudioCutting {
  return { next: () => Promise.resolve(trouble), stop: () => {} };
}

interface CuttingOptions {
  readonly recording: StoredFile;
  readonly turn: Turn;
  readonly stallMs: number;
  readonly environment: Readonly<Record<string, string>>;
  readonly command: readonly string[];
  readonly onEnd: () => void;
}

type Child = Bun.Subprocess<"pipe", "pipe", "ignore">;

class Cutting implements AudioCutting {
  readonly #options: CuttingOptions;
  #child: Child | null = null;
  #output: ByteReader | null = null;
  #trouble: CutTrouble | null = null;
  #over = false;

  constructor(options: CuttingOptions) {
    this.#options = options;
  }

  async next(): Promise<AudioPart | CutTrouble | null> {
    if (this.#output === null) {
      await this.#options.turn.ready;
      if (!this.#over) this.#begin();
    }
    if (this.#over || this.#output === null) return this.#trouble;
    const stalled = setTimeout(() => this.#fail("the process that cuts recordings is stuck"), this.#options.stallMs);
    try {
      return (await this.#part(this.#output)) ?? this.#trouble;
    } finally {
      clearTimeout(stalled);
    }
  }

  stop(): void {
    this.#end({ kind: "failed", failure: stopped });
  }

  #begin(): void {
    const { command, environment, recording } = this.#options;
    const child = spawned([...command, "--bytes", String(recording.length)], environment);
    if (child === null) return void this.#fail("the process that cuts recordings could not be started");
    this.#child = child;
    this.#output = new ByteReader(child.stdout);
    void this.#feed(child.stdin, recording);
  }

  /** As fast as the process takes it, which is as fast as its parts are taken. */
  async #feed(input: Bun.FileSink, recording: StoredFile): Promise<void> {
    for (let at = 0; at < recording.length && !this.#over;) {
      let bytes: Uint8Array;
      try {
        bytes = await recording.read(at, feedBytes);
      } catch {
        this.#fail("a recording could not be read back");
        return;
      }
      if (this.#over) return;
      if (bytes.length === 0) return void this.#fail("a recording is shorter than it was");
      try {
        await input.write(bytes);
        await input.flush();
      } catch {
        // It wants no more; why, it says itself.
        return;
      }
      at += bytes.length;
    }
  }

  async #part(output: ByteReader): Promise<AudioPart | null> {
    const head = await readHead(output);
    if (this.#over) return null;
    switch (head?.type) {
      case "part":
        return this.#stored(head, output);
      case "end":
        return this.#end(null);
      case "failed":
        return this.#end(troubleOf(head));
      case undefined:
        return this.#fail("the process that cuts recordings ended early");
    }
  }

  async #stored(head: PartHead, output: ByteReader): Promise<AudioPart | null> {
    let file: SplitFile | null = null;
    try {
      file = new SplitFile();
      const into = file;
      if (!(await output.pass(head.bytes, (bytes) => into.append(bytes)))) {
        file.dispose();
        return this.#over ? null : this.#fail("the process that cuts recordings ended early");
      }
    } catch (error) {
      file?.dispose();
      return this.#end({ kind: "failed", failure: notStored(error) });
    }
    const kept = file;
    if (this.#over) {
      kept.dispose();
      return null;
    }
    const { start, end, overlap, goesOn } = head;
    const content = { name: "part.wav", type: "audio/wav", content: kept.stored() };
    return { kind: "part", start, end, overlap, goesOn, file: content, dispose: () => kept.dispose() };
  }

  #fail(detail: string): null {
    return this.#end({ kind: "failed", failure: failure("internal", detail) });
  }

  /** The first reason stands. */
  #end(trouble: CutTrouble | null): null {
    if (this.#over) return null;
    this.#over = true;
    this.#trouble = trouble;
    this.#child?.kill("SIGKILL");
    this.#options.turn.giveBack();
    this.#options.onEnd();
    return null;
  }
}

function spawned(command: readonly string[], environment: Readonly<Record<string, string>>): Child | null {
  try {
    return Bun.spawn([...command], { env: environment, stdin: "pipe", stdout: "pipe", stderr: "ignore" });
  } catch {
    return null;
  }
}

const feedBytes = 256 * 1024;
const headBytesMax = 64 * 1024;
const stopped = failure("deadline", "the cutting of a recording was stopped");

interface PartHead {
  readonly type: "part";
  readonly start: number;
  readonly end: number;
  readonly overlap: number;
  readonly goesOn: boolean;
  readonly bytes: number;
}

interface FailedHead {
  readonly type: "failed";
  readonly reason: "undecodable" | "absent" | "broken";
  readonly message: string;
}

type Head = PartHead | FailedHead | { readonly type: "end" };

async function readHead(output: ByteReader): Promise<Head | null> {
  const size = await output.take(4);
  if (size === null) return null;
  const length = new DataView(size.buffer, size.byteOffset, 4).getUint32(0, true);
  if (length > headBytesMax) return null;
  const bytes = await output.take(length);
  try {
    return bytes === null ? null : (JSON.parse(new TextDecoder().decode(bytes)) as Head);
  } catch {
    return null;
  }
}

function troubleOf({ reason, message }: FailedHead): CutTrouble {
  if (reason === "absent") return { kind: "absent", missing: "a codec of the package @sluice/embedded" };
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

/** The code of the system, such as ENOSPC, stays in our log. */
function notStored(error: unknown): Failure {
  const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
  return failure("internal", `a part of a recording could not be written to the temporary directory: ${code}`, {
    message: "The gateway has no room for the parts of this recording at the moment. Try again later.",
  });
}
