import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { AudioFormat, MakeTranscoder, Transcoder } from "../../media/audio.ts";
import { TranscoderLost } from "../../operations/transcoder-lost.ts";

export interface TranscodeOptions {
  /** The worker's file. Where it or a codec's package is not installed, there are no transcoders. */
  readonly worker?: URL;
  /** How long the worker stays when nobody transcodes. */
  readonly idleMs?: number;
  /** How long the worker may work without a word before it is taken for stuck and ended, with every call in it. */
  readonly stepMsMax?: number;
}

export interface Transcode {
  readonly make: MakeTranscoder;
  /** Ends the worker; what is under way fails. */
  stop(): void;
}

const defaultWorker = new URL("../../../packages/embedded/src/codecs/worker.ts", import.meta.url);

/** Transcodes in a worker of its own, for codecs are heavy and the gateway's thread serves everybody. */
export function makeTranscode({ worker = defaultWorker, idleMs = 60_000, stepMsMax = 60_000 }: TranscodeOptions = {}): Transcode {
  let running: Running | null = null;
  let lastId = 0;
  let idle: ReturnType<typeof setTimeout> | undefined;

  const drop = (old: Running): void => {
    if (running === old) running = null;
  };

  const started = (): Running => {
    clearTimeout(idle);
    running ??= start(worker, stepMsMax, drop);
    return running;
  };

  const rest = (): void => {
    clearTimeout(idle);
    if (running === null || running.live.size > 0) return;
    idle = setTimeout(() => running?.end("it had nothing to do"), idleMs);
    idle.unref();
  };

  const make = async (from: AudioFormat, to: AudioFormat): Promise<Transcoder | null> => {
    if (!existsSync(fileURLToPath(worker))) return null;
    const server = started();
    const id = ++lastId;
    server.live.add(id);
    const leave = (): void => {
      server.live.delete(id);
      rest();
    };
    const ask = async (question: Question): Promise<Step | null> => {
      try {
        return await server.ask(question);
      } catch (error) {
        leave();
        throw error;
      }
    };
    const step = async (question: Question): Promise<Step> => {
      const answer = await ask(question);
      if (answer !== null) return answer;
      leave();
      throw new TranscoderLost("a codec is not installed");
    };
    if ((await ask({ type: "make", id, from, to })) === null) {
      leave();
      return null;
    }
    let hasMore = false;
    return {
      async push(bytes) {
        for (let given = bytes; given.length > 0 || hasMore; given = nothing) {
          const answer = await step({ type: "push", id, bytes: given });
          hasMore = answer.more;
          if (answer.bytes.length > 0) return answer.bytes;
        }
        return nothing;
      },
      async end() {
        const pieces: Uint8Array[] = [];
        for (let more = true; more;) {
          const answer = await step({ type: "end", id });
          pieces.push(answer.bytes);
          ({ more } = answer);
        }
        leave();
        return pieces.length === 1 ? pieces[0]! : new Uint8Array(Buffer.concat(pieces));
      },
      destroy() {
        if (!server.live.has(id)) return;
        server.tell({ type: "destroy", id });
        leave();
      },
    };
  };

  return {
    make,
    stop() {
      clearTimeout(idle);
      running?.end("the gateway is stopping");
    },
  };
}

/** What the worker is asked; the answer bears the number of the call. */
type Question =
  | { readonly type: "make"; readonly id: number; readonly from: AudioFormat; readonly to: AudioFormat }
  | { readonly type: "push"; readonly id: number; readonly bytes: Uint8Array }
  | { readonly type: "end"; readonly id: number };

type Answer =
  | ({ readonly call: number; readonly type: "done" } & Step)
  | { readonly call: number; readonly type: "absent" }
  | { readonly call: number; readonly type: "failed"; readonly message: string; readonly audio: boolean }
  | { readonly type: "alive" };

/** A bounded part of what there is to give. */
interface Step {
  readonly bytes: Uint8Array;
  readonly more: boolean;
}

const nothing = new Uint8Array(0);

interface Running {
  /** The transcoders that are neither ended nor given up. */
  readonly live: Set<number>;
  /** `null` where a package is not installed. */
  ask(question: Question): Promise<Step | null>;
  tell(message: { readonly type: "destroy"; readonly id: number }): void;
  end(reason: string): void;
}

interface Call {
  readonly resolve: (step: Step | null) => void;
  readonly reject: (error: Error) => void;
}

function start(file: URL, stepMsMax: number, onEnd: (running: Running) => void): Running {
  const worker = new Worker(file.href) as Worker & { ref(): void; unref(): void };
  const calls = new Map<number, Call>();
  let lastCall = 0;
  let ended: string | null = null;
  let limit: ReturnType<typeof setTimeout> | undefined;

  // A worker without calls shall not keep the program from ending.
  const held = (): void => {
    if (calls.size > 0) worker.ref();
    else worker.unref();
  };

  // A call may wait long for its turn, but then the worker speaks to others.
  const heardOf = (): void => {
    clearTimeout(limit);
    if (calls.size > 0) limit = setTimeout(() => end(`a step took more than ${stepMsMax} ms`), stepMsMax);
  };

  const end = (reason: string): void => {
    if (ended !== null) return;
    ended = `the transcoding worker ended: ${reason}`;
    onEnd(running);
    for (const { reject } of calls.values()) reject(new TranscoderLost(ended));
    calls.clear();
    clearTimeout(limit);
    held();
    worker.terminate();
  };

  const settle = (answer: Answer): void => {
    const call = answer.type === "alive" ? undefined : calls.get(answer.call);
    if (answer.type !== "alive") calls.delete(answer.call);
    heardOf();
    held();
    if (answer.type === "alive" || call === undefined) return;
    if (answer.type === "failed") call.reject(answer.audio ? new Error(answer.message) : new TranscoderLost(answer.message));
    else call.resolve(answer.type === "absent" ? null : answer);
  };

  worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => settle(data));
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    end(event.message || "it failed");
  });
  worker.addEventListener("close", () => end("it was closed"));
  held();

  const running: Running = {
    live: new Set(),
    ask: (question) =>
      new Promise((resolve, reject) => {
        if (ended !== null) {
          reject(new TranscoderLost(ended));
          return;
        }
        const call = ++lastCall;
        calls.set(call, { resolve, reject });
        if (calls.size === 1) heardOf();
        held();
        worker.postMessage({ ...question, call }, []);
      }),
    tell(message) {
      if (ended === null) worker.postMessage(message, []);
    },
    end,
  };
  return running;
}
