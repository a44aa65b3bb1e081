import { chmodSync, lstatSync, rmSync } from "node:fs";
import type { Answer, Engine, Order } from "./engine.ts";
import { isRefusal, refusal, refusalResponse, type Refusal } from "./refusal.ts";
import { makeTurns, type EndTurn, type Place, type Turns } from "./turns.ts";

export interface ServeOptions {
  readonly socket: string;
  /** Without a request for so long, it calls `onIdle`. */
  readonly idleMs: number;
  readonly onIdle: () => void;
  /**
   * Signs of life: a beat every second while a request is open, and a rest when none is any more. Work that keeps the thread
   * for longer is followed by a beat as soon as a unit of it is done.
   */
  readonly onSign?: (sign: "beat" | "rest") => void;
  /** How long it takes until the next beat is due. */
  readonly beatMs?: number;
}

export interface EngineServer {
  /** Closes every connection and removes the socket. */
  stop(): Promise<void>;
}

/**
 * A long recording takes minutes before its first word, and a turn may be long in coming. The runtime's types do not
 * know this option for unix sockets, and its `server.timeout` does nothing there; without it ten seconds are the end.
 */
const patience: object = { idleTimeout: 0 };
const waitingMax = 8;
/** Answers that are computed but not yet read by their clients count as well, since they are held in memory. */
const requestsMax = 16;
/** The longest text at the slowest speed: a slow reader never keeps the others waiting, as all it asked for can be held. */
const aheadBytesMax = 64 * 1024 * 1024;

/** Serves an engine on a unix socket, in the convention. The socket is its owner's only. */
export function serveEngine(engine: Engine, options: ServeOptions): EngineServer {
  removeSocket(options.socket);
  const turns = makeTurns(waitingMax);
  // The runtime counts a request until all of its answer was taken, or its client left; ours goes on until the work stopped.
  const idle = makeIdleWatch(options, () => server.pendingRequests);
  // The socket must not be open to others even for the moment before its mode is set.
  const mask = process.umask(0o177);
  const server: Bun.Server<undefined> = Bun.serve({
    ...patience,
    unix: options.socket,
    maxRequestBodySize: engine.requestBytesMax,
    fetch: (request) => {
      // It is among those that are counted.
      if (idle.open() > requestsMax) return refusalResponse(busy(turns.roomMs()));
      const left = idle.entered();
      return handle(engine, turns, request, { left, worked: idle.worked });
    },
    error: (thrown) => refusalResponse(broken(thrown)),
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

/** What the watch is told of a request: that it is over, and that something was done for it. */
interface Watching {
  readonly left: () => void;
  readonly worked: () => void;
}

async function handle(engine: Engine, turns: Turns, request: Request, { left, worked }: Watching): Promise<Response> {
  let streaming = false;
  const state = { end: left };
  let place: Place | null = null;
  try {
    const { pathname } = new URL(request.url);
    if (request.method === "GET" && pathname === "/v1/models") return Response.json(modelList(engine));
    const read = engine.routes.get(pathname);
    if (read === undefined) return refusalResponse(refusal(404, `There is no ${request.method} ${pathname} here.`));
    if (request.method !== "POST") return refusalResponse(refusal(405, `${pathname} is asked with POST.`));
    // Before its body is read, which may be large.
    place = turns.enter();
    if (place === null) return refusalResponse(busy(turns.roomMs()));
    const order = await read(request);
    if (typeof order !== "function") return refusalResponse(order);
    const endTurn = await place.turn(request.signal);
    state.end = () => {
      endTurn();
      left();
    };
    const response = await answered(order, request.signal, state.end, worked);
    streaming = response.streaming;
    return response.response;
  } catch (thrown) {
    return refusalResponse(request.signal.aborted ? gone : broken(thrown));
  } finally {
    place?.leave();
    if (!streaming) state.end();
  }
}

async function answered(
  order: Order,
  signal: AbortSignal,
  end: EndTurn,
  worked: () => void,
): Promise<{ readonly response: Response; readonly streaming: boolean }> {
  const answer = await order(signal, worked);
  if (isRefusal(answer)) return { response: refusalResponse(answer), streaming: false };
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
  end: EndTurn,
  worked: () => void,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let next: IteratorResult<string | Uint8Array, void> | null = first;
  let hasLeft = false;
  // Whoever notices first that nobody listens any more ends the work; the turn is over once it really stopped.
  const leave = async (): Promise<void> => {
    hasLeft = true;
    try {
      await pieces.return();
    } catch {
      // It was stopped in the middle of a piece, which is what was wanted.
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
          // Where it was stopped, it may be at work still.
          await leave();
          // The connection is cut without a proper end, so that the reader does not take a part for the whole.
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

function busy(retryAfterMs: number): Refusal {
  const message = "The engine is busy and enough requests wait already. Try again later.";
  return refusal(429, message, { type: "rate_limit_error", code: "rate_limit_exceeded", retryAfterMs });
}

const gone = refusal(499, "The client left before the answer was complete.");

/** The gateway would ask the same engine again after a 500, which would only fail again; after a 504 it does not. */
function broken(thrown: unknown): Refusal {
  report(thrown);
  return refusal(504, "The engine made a mistake. It has been logged.", { type: "server_error", code: "engine_failed" });
}

/** Standard error is the parent's log. What a message quotes may be a client's words, so it is left out. */
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
  /** How many requests are open: at work, waiting, or with an answer that is not read yet. */
  open(): number;
  entered(): () => void;
  /** A unit of work is done. */
  readonly worked: () => void;
  stop(): void;
}

const lookMs = 100;
const beatMsDefault = 1_000;

function makeIdleWatch(options: ServeOptions, unanswered: () => number): IdleWatch {
  const { idleMs, onIdle, onSign = () => {}, beatMs = beatMsDefault } = options;
  let atWork = 0;
  let beatAtMs = -Infinity;
  let idleTimer = setTimeout(onIdle, idleMs);
  let looking: ReturnType<typeof setInterval> | null = null;
  const open = (): number => Math.max(atWork, unanswered());

  // By the clock: how often a timer rings says nothing of how much time has passed where the thread is busy.
  const beat = (): void => {
    const nowMs = performance.now();
    if (looking === null || nowMs - beatAtMs < beatMs) return;
    beatAtMs = nowMs;
    onSign("beat");
  };
  // Nobody says when the last byte of an answer was taken, so that has to be looked for.
  const look = (): void => {
    clearTimeout(idleTimer);
    beatAtMs = -Infinity;
    looking = setInterval(() => {
      if (open() > 0) return beat();
      stopLooking();
      onSign("rest");
      idleTimer = setTimeout(onIdle, idleMs);
    }, lookMs);
    beat();
  };
  const stopLooking = (): void => {
    if (looking !== null) clearInterval(looking);
    looking = null;
  };
  return {
    open,
    worked: beat,
    entered() {
      atWork++;
      if (looking === null) look();
      let left = false;
      return () => {
        if (!left) atWork--;
        left = true;
      };
    },
    stop() {
      clearTimeout(idleTimer);
      stopLooking();
    },
  };
}

/** One left behind by an engine that was killed would be in the way. Nothing else may be: listening would remove it. */
function removeSocket(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error(`${path} exists and is no socket`);
  rmSync(path, { force: true });
}
