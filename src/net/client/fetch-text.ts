import { isFailure } from "../../operations/failure.ts";
import { startExchange } from "./exchange.ts";
import type { Reach } from "./guarded-lookup.ts";
import { Pool } from "./pool.ts";
import { destinationOf, makeHead } from "./request-head.ts";
import { readWithin } from "./read-within.ts";

export interface TextRequest {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Null: none. */
  readonly body: string | null;
  /** The addresses that the connection may be opened to. */
  readonly reach: Reach;
  /** A longer answer is a problem. */
  readonly bytesMax: number;
}

/** A response that was read to its end, or why there is none, in words. */
export type FetchedText =
  | { readonly ok: true; readonly status: number; readonly contentType: string | null; readonly body: string }
  | { readonly ok: false; readonly problem: string };

export interface FetchTextOptions {
  readonly nowMs: () => number;
  readonly connectMs?: number;
  /** For everything together. */
  readonly timeoutMs?: number;
}

/** Fetches a short text from another system. It never rejects, follows no redirect, and asks no address outside of its reach. */
export function makeFetchText({ nowMs, connectMs = 5_000, timeoutMs = 10_000 }: FetchTextOptions) {
  const pool = new Pool(nowMs);
  return async function fetchText({ method, url, headers, body, reach, bytesMax }: TextRequest): Promise<FetchedText> {
    const { origin, host, path } = destinationOf(url, reach);
    const head = makeHead({ method, headers }, path, { host, authHeader: "authorization", auth: null });
    const content = body === null ? null : new TextEncoder().encode(body);
    const read = await readWithin(startExchange({ origin, pool, connectMs }, head, content), timeoutMs, bytesMax);
    if (read === "late") return { ok: false, problem: `there was no answer within ${timeoutMs} ms` };
    if (isFailure(read)) return { ok: false, problem: read.detail };
    const { reply, body: bytes } = read;
    if (isFailure(bytes)) return { ok: false, problem: bytes.detail };
    return { ok: true, status: reply.status, contentType: reply.header("content-type"), body: new TextDecoder().decode(bytes) };
  };
}
