import { chmodSync, lstatSync, rmSync } from "node:fs";
import type { Answer, Engine, Job } from "./engine.ts";
import { isRequestError, requestError, errorResponse, type RequestError } from "./request-error.ts";
import { makeJobQueue, type EndJob, type JobSlot, type JobQueue } from "./job-queue.ts";

export interface ServeOptions {
  readonly socket: string;
  /** `onIdle` is called after this long without a request. */
  readonly idleMs: number;
  readonly onIdle: () => void;
  /**
   * Heartbeats: a beat every second while a request is open, and a rest when none is left. After work that blocks the thread for longer,
   * a beat follows as soon as the unit of work is done.
   */
  readonly onHeartbeat?: (sign: "beat" | "rest") => void;
  /** The heartbeat interval. */
  readonly beatMs?: number;
}

export interface EngineServer {
  /** Closes every connection and removes the socket. */
  stop(): Promise<void>;
}

/**
 * A long recording takes minutes before its first word, and a request may wait long for its turn. Bun's types do not have this option
 * for unix sockets, and `server.timeout` has no effect there; the default is ten seconds.
 */
const noIdleTimeout: object = { idleTimeout: 0 };
const waitingMax = 8;
/** Includes answers that are computed but not read yet, because they are held in memory. */
const requestsMax = 16;
/** Fits the longest text at the slowest speed: the answer to a slow reader is held completely, so that it does not block others. */
const aheadBytesMax = 64 * 1024 * 1024;

/** Serves an engine as an OpenAI-compatible API on a unix socket that only its owner can use. */
export function serveEngine(engine: Engine, options: ServeOptions): EngineServer {
  removeSocket(options.socket);
  const jobs = makeJobQueue(waitingMax);
  // Bun counts a request until its answer was read or its client left; we count it until its work has stopped.
  const idle = makeIdleWatch(options, () => server.pendingRequests);
  // The umask applies until chmod, so that the socket is never accessible to others.
  const mask = process.umask(0o177);
  const server: Bun.Server<undefined> = Bun.serve({
    ...noIdleTimeout,
    unix: options.socket,
    maxRequestBodySize: engine.requestBytesMax,
    fetch: (request) => {
      // The new request is included in the count.
      if (idle.open() > requestsMax) return errorResponse(busy(jobs.retryAfterMs()));
      const left = idle.entered();
      return handle(engine, jobs, request, { left, worked: idle.worked });
    },
    error: (thrown) => errorResponse(engineFailed(thrown)),
  });
  process.umask(mask);
  chmodSync(options.socket, 0o600);
  return {
    async stop() {
      idle.stop();
      await server.stop(true);
      removeSocket(options.socket);
    },
  };
}

/** Callbacks that report the end of a request, and each unit of work done for it. */
interface RequestCallbacks {
  readonly left: () => void;
  readonly worked: () => void;
}

async function handle(engine: Engine, jobs: JobQueue, request: Request, { left, worked }: RequestCallbacks): Promise<Response> {
  let streaming = false;
  const state = { end: left };
  let slot: JobSlot | null = null;
  try {
    const { pathname } = new URL(request.url);
    if (request.method === "GET" && pathname === "/v1/models") return Response.json(modelList(engine));
    const read = engine.routes.get(pathname);
    if (read === undefined) return errorResponse(requestError(404, `There is no ${request.method} ${pathname} here.`));
    if (request.method !== "POST") return errorResponse(requestError(405, `Use POST for ${pathname}.`));
    // A slot is reserved before the body is read, because the body may be large.
    slot = jobs.reserve();
    if (slot === null) return errorResponse(busy(jobs.retryAfterMs()));
    const job = await read(request);
    if (typeof job !== "function") return errorResponse(job);
    const endJob = await slot.start(request.signal);
    state.end = () => {
      endJob();
      left();
    };
    const response = await respond(job, request.signal, state.end, worked);
    streaming = response.streaming;
    return response.response;
  } catch (thrown) {
    return errorResponse(request.signal.aborted ? clientLeft : engineFailed(thrown));
  } finally {
    slot?.release();
    if (!streaming) state.end();
  }
}

async function respond(
  job: Job,
  signal: AbortSignal,
  end: EndJob,
  worked: () => void,
): Promise<{ readonly response: Response; readonly streaming: boolean }> {
  const answer = await job(signal, worked);
  if (isRequestError(answer)) return { response: errorResponse(answer), streaming: false };
  const headers = { "content-type": answer.type, "cache-control": "no-store" };
  if (typeof answer.body === "string") return { response: new Response(answer.body, { headers }), streaming: false };
  const first = await answer.body.next();
  worked();
  return { response: new Response(stream(answer.body, first, signal, end, worked), { headers }), streaming: true };
}

type Pieces = Exclude<Answer["body"], string>;

function stream(
  pieces: Pieces,
  first: IteratorResult<string | Uint8Array, void>,
  signal: AbortSignal,
  end: EndJob,
  worked: () => void,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let next: IteratorResult<string | Uint8Array, void> | null = first;
  let hasLeft = false;
  // The client's departure may be noticed here or by the stream. The job ends only when its work has stopped.
  const leave = async (): Promise<void> => {
    hasLeft = true;
    try {
      await pieces.return();
    } catch {
      // The generator was stopped in the middle of a piece, as intended.
    } finally {
      end();
    }
  };
  const onAbort = (): void => void leave();
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const piece = next ?? (await pieces.next());
          next = null;
          worked();
          if (piece.done === true) {
            signal.removeEventListener("abort", onAbort);
            end();
            controller.close();
            return;
          }
          controller.enqueue(typeof piece.value === "string" ? encoder.encode(piece.value) : piece.value);
        } catch (thrown) {
          if (!hasLeft && !signal.aborted) report(thrown);
          // If the client left, the work may still be running.
          await leave();
          // Breaking the connection keeps the reader from taking a part for the whole answer.
          controller.error(thrown);
        }
      },
      cancel: leave,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: aheadBytesMax }),
  );
}

function modelList(engine: Engine): object {
  const data = engine.models().map(({ upstream, description }) => ({
    id: upstream,
    object: "model",
    created: 0,
    owned_by: "embedded",
    description,
  }));
  return { object: "list", data };
}

function busy(retryAfterMs: number): RequestError {
  const message = "The engine is busy and its queue is full. Try again later.";
  return requestError(429, message, { type: "rate_limit_error", code: "rate_limit_exceeded", retryAfterMs });
}

const clientLeft = requestError(499, "The client left before the answer was complete.");

/** 504, because after a 500 the gateway would ask the same engine again, which would fail again. */
function engineFailed(thrown: unknown): RequestError {
  report(thrown);
  return requestError(504, "The engine failed. The error was logged.", { type: "server_error", code: "engine_failed" });
}

/** Writes to stderr, which the gateway logs. Quoted text is removed, because it may contain a client's words. */
function report(thrown: unknown): void {
  const { name, message, stack = "" } = thrown instanceof Error ? thrown : new Error(String(thrown));
  const frames = stack.split("\n").filter((line) => line.startsWith("    at "));
  const error = [`${name}: ${withoutQuotes(message).slice(0, messageMax)}`, ...frames.slice(0, framesMax)].join("\n");
  process.stderr.write(`${JSON.stringify({ event: "failed", error })}\n`);
}

const messageMax = 200;
const framesMax = 5;

function withoutQuotes(text: string): string {
  return text.replace(/(["'`]).*\1/gs, "…");
}

interface IdleWatch {
  /** The number of open requests: running, waiting, or with an answer that is not read yet. */
  open(): number;
  entered(): () => void;
  /** Reports a finished unit of work. */
  readonly worked: () => void;
  stop(): void;
}

const pollMs = 100;
const beatMsDefault = 1_000;

function makeIdleWatch(options: ServeOptions, unanswered: () => number): IdleWatch {
  const { idleMs, onIdle, onHeartbeat = () => {}, beatMs = beatMsDefault } = options;
  let atWork = 0;
  let beatAtMs = -Infinity;
  let idleTimer = setTimeout(onIdle, idleMs);
  let polling: ReturnType<typeof setInterval> | null = null;
  const open = (): number => Math.max(atWork, unanswered());

  // By the clock, because timers are late while the thread is busy.
  const beat = (): void => {
    const nowMs = performance.now();
    if (polling === null || nowMs - beatAtMs < beatMs) return;
    beatAtMs = nowMs;
    onHeartbeat("beat");
  };
  // Bun does not report when the last byte of an answer was read, so that we poll.
  const startPolling = (): void => {
    clearTimeout(idleTimer);
    beatAtMs = -Infinity;
    polling = setInterval(() => {
      if (open() > 0) return beat();
      stopPolling();
      onHeartbeat("rest");
      idleTimer = setTimeout(onIdle, idleMs);
    }, pollMs);
    beat();
  };
  const stopPolling = (): void => {
    if (polling !== null) clearInterval(polling);
    polling = null;
  };
  return {
    open,
    worked: beat,
    entered() {
      atWork++;
      if (polling === null) startPolling();
      let left = false;
      return () => {
        if (!left) atWork--;
        left = true;
      };
    },
    stop() {
      clearTimeout(idleTimer);
      stopPolling();
    },
  };
}

/** Removes the socket of an engine that was killed. Anything else is an error, because listening would delete it. */
function removeSocket(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error(`${path} exists and is not a socket`);
  rmSync(path, { force: true });
}
