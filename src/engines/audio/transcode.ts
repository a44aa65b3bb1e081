import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type AudioFormat, type MakeTranscoder, type Transcoder, TranscoderLost } from "../../media/audio.ts";

export interface TranscodeOptions {
  /** The worker's file. Without it or a codec's package, there are no transcoders. */
  readonly worker?: URL;
  /** How long an idle worker is kept. */
  readonly idleMs?: number;
  /** How long the worker may send nothing before it counts as stuck. It is then terminated, and every call in it fails. */
  readonly stepMsMax?: number;
}

export interface Transcode {
  readonly make: MakeTranscoder;
  /** Terminates the worker; calls in progress fail. */
  stop(): void;
}

const defaultWorker = new URL("../../../packages/embedded/src/codecs/worker.ts", import.meta.url);

/** Transcodes in a worker: codecs are CPU-heavy, and the gateway's main thread serves every call. */
export function makeTranscode({ worker = defaultWorker, idleMs = 60_000, stepMsMax = 60_000 }: TranscodeOptions = {}): Transcode {
  let running: CodecWorker | null = null;
  let lastId = 0;
  let idle: ReturnType<typeof setTimeout> | undefined;

  const drop = (old: CodecWorker): void => {
    if (running === old) running = null;
  };

  const started = (): CodecWorker => {
    clearTimeout(idle);
    running ??= start(worker, stepMsMax, drop);
    return running;
  };

  const scheduleIdleStop = (): void => {
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
    const release = (): void => {
      server.live.delete(id);
      scheduleIdleStop();
    };
    const call = async (message: WorkerRequest): Promise<TranscodedChunk | null> => {
      try {
        return await server.request(message);
      } catch (error) {
        release();
        throw error;
      }
    };
    const step = async (request: WorkerRequest): Promise<TranscodedChunk> => {
      const response = await call(request);
      if (response !== null) return response;
      release();
      throw new TranscoderLost("a codec is not installed");
    };
    if ((await call({ type: "make", id, from, to })) === null) {
      release();
      return null;
    }
    let hasMore = false;
    return {
      async push(bytes) {
        for (let given = bytes; given.length > 0 || hasMore; given = empty) {
          const response = await step({ type: "push", id, bytes: given });
          hasMore = response.more;
          if (response.bytes.length > 0) return response.bytes;
        }
        return empty;
      },
      async end() {
        const pieces: Uint8Array[] = [];
        for (let more = true; more;) {
          const response = await step({ type: "end", id });
          pieces.push(response.bytes);
          ({ more } = response);
        }
        release();
        return pieces.length === 1 ? pieces[0]! : new Uint8Array(Buffer.concat(pieces));
      },
      destroy() {
        if (!server.live.has(id)) return;
        server.send({ type: "destroy", id });
        release();
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

/** A request to the worker. The response has the same call number. */
type WorkerRequest =
  | { readonly type: "make"; readonly id: number; readonly from: AudioFormat; readonly to: AudioFormat }
  | { readonly type: "push"; readonly id: number; readonly bytes: Uint8Array }
  | { readonly type: "end"; readonly id: number };

type WorkerResponse =
  | ({ readonly call: number; readonly type: "done" } & TranscodedChunk)
  | { readonly call: number; readonly type: "absent" }
  | { readonly call: number; readonly type: "failed"; readonly message: string; readonly audio: boolean }
  | { readonly type: "alive" };

/** A bounded part of the output; `more` says that there is another. */
interface TranscodedChunk {
  readonly bytes: Uint8Array;
  readonly more: boolean;
}

const empty = new Uint8Array(0);

interface CodecWorker {
  /** The transcoders that were neither ended nor destroyed. */
  readonly live: Set<number>;
  /** `null` if a package is not installed. */
  request(request: WorkerRequest): Promise<TranscodedChunk | null>;
  send(message: { readonly type: "destroy"; readonly id: number }): void;
  end(reason: string): void;
}

interface PendingRequest {
  readonly resolve: (step: TranscodedChunk | null) => void;
  readonly reject: (error: Error) => void;
}

function start(file: URL, stepMsMax: number, onEnd: (running: CodecWorker) => void): CodecWorker {
  const worker = new Worker(file.href) as Worker & { ref(): void; unref(): void };
  const calls = new Map<number, PendingRequest>();
  let lastCall = 0;
  let ended: string | null = null;
  let stallTimer: ReturnType<typeof setTimeout> | undefined;

  // An idle worker must not keep the process alive.
  const updateRef = (): void => {
    if (calls.size > 0) worker.ref();
    else worker.unref();
  };

  // A call may wait long, but then the worker responds to others, which restarts the timer.
  const restartStallTimer = (): void => {
    clearTimeout(stallTimer);
    if (calls.size > 0) stallTimer = setTimeout(() => end(`a step took more than ${stepMsMax} ms`), stepMsMax);
  };

  const end = (reason: string): void => {
    if (ended !== null) return;
    ended = `the transcoding worker ended: ${reason}`;
    onEnd(running);
    for (const { reject } of calls.values()) reject(new TranscoderLost(ended));
    calls.clear();
    clearTimeout(stallTimer);
    updateRef();
    worker.terminate();
  };

  const settle = (response: WorkerResponse): void => {
    const call = response.type === "alive" ? undefined : calls.get(response.call);
    if (response.type !== "alive") calls.delete(response.call);
    restartStallTimer();
    updateRef();
    if (response.type === "alive" || call === undefined) return;
    if (response.type === "failed") call.reject(response.audio ? new Error(response.message) : new TranscoderLost(response.message));
    else call.resolve(response.type === "absent" ? null : response);
  };

  worker.addEventListener("message", ({ data }: MessageEvent<WorkerResponse>) => settle(data));
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    end(event.message || "it failed");
  });
  worker.addEventListener("close", () => end("it was closed"));
  updateRef();

  const running: CodecWorker = {
    live: new Set(),
    request: (request) =>
      new Promise((resolve, reject) => {
        if (ended !== null) {
          reject(new TranscoderLost(ended));
          return;
        }
        const call = ++lastCall;
        calls.set(call, { resolve, reject });
        if (calls.size === 1) restartStallTimer();
        updateRef();
        worker.postMessage({ ...request, call }, []);
      }),
    send(message) {
      if (ended === null) worker.postMessage(message, []);
    },
    end,
  };
  return running;
}
