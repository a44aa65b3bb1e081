import type { Exchange, Reply } from "../../gateway/ports.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";

/** A response that was read to its end. */
export interface ReadReply {
  readonly reply: Reply;
  /** A failure if it broke off or was too large. */
  readonly body: Uint8Array | Failure;
}

/** Reads a whole response. After `timeoutMs`, for everything together, the exchange is aborted, and the result is `late`. */
export async function readWithin(exchange: Exchange, timeoutMs: number, bytesMax: number): Promise<ReadReply | Failure | "late"> {
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    exchange.abort();
  }, timeoutMs);
  const reply = await exchange.reply;
  const body = isFailure(reply) ? reply : await reply.bytes(bytesMax);
  clearTimeout(timer);
  if (isLate) return "late";
  return isFailure(reply) ? reply : { reply, body };
}
