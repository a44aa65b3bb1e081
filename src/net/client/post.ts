import { retryAfterHeaderMs } from "../../dialects/errors/retry-after.ts";
import type { Reply } from "../../gateway/ports.ts";
import { isFailure } from "../../operations/failure.ts";
import { startExchange } from "./exchange.ts";
import type { Reach } from "./guarded-lookup.ts";
import { Pool } from "./pool.ts";
import { destinationOf, makeHead } from "./request-head.ts";
import { readWithin } from "./read-within.ts";

export interface PostOptions {
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  /** The addresses that a connection may be opened to. */
  readonly reach: Reach;
  readonly connectMs?: number;
  /** For everything together. */
  readonly timeoutMs?: number;
}

/** A response, or why there was none: then the status is null. */
export interface PostReply {
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  /** The beginning of the body. */
  readonly body: string;
  readonly reason: string;
}

/** Sends a text to another system by POST. It never rejects and follows no redirect. */
export function makePost({ nowMs, wallMs, reach, connectMs = 5_000, timeoutMs = 10_000 }: PostOptions) {
  const pool = new Pool(nowMs);
  return async function post(url: string, headers: Readonly<Record<string, string>>, body: string): Promise<PostReply> {
    const { origin, host, path } = destinationOf(url, reach);
    const head = makeHead({ method: "POST", headers }, path, { host, authHeader: "authorization", auth: null });
    const exchange = startExchange({ origin, pool, connectMs }, head, new TextEncoder().encode(body));
    const read = await readWithin(exchange, timeoutMs, answerBytesMax);
    if (read === "late") return unanswered(`there was no answer within ${timeoutMs} ms`);
    if (isFailure(read)) return unanswered(read.detail);
    const { reply, body: bytes } = read;
    const text = isFailure(bytes) ? "" : new TextDecoder().decode(bytes);
    return postReply(reply, text, wallMs());
  };
}

function unanswered(reason: string): PostReply {
  return { status: null, retryAfterMs: null, body: "", reason };
}

/** How long a receiver asks to wait may be a number or a date, which is compared with the response's own, or else with `wallNowMs`. */
export function postReply(reply: Reply, body: string, wallNowMs: number): PostReply {
  return { status: reply.status, retryAfterMs: retryAfterHeaderMs((name) => reply.header(name), wallNowMs), body, reason: "" };
}

const answerBytesMax = 64 * 1024;
