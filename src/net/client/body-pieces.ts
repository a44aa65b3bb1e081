import type { StreamedBody } from "../../dialects/dialect.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { codeOf } from "./connection-failure.ts";

/**
 * A streamed body in pieces that are small enough to be queued in memory; a failure is the last of them. The piece that
 * completes the body is only given out when nothing follows it, so that a request with a wrong length is never complete.
 */
export async function* bodyPieces(body: StreamedBody): AsyncGenerator<Uint8Array | Failure, void, void> {
  let left = body.length;
  let last: Uint8Array | null = null;
  try {
    for await (const part of body.parts()) {
      if (part.length === 0) continue;
      left -= part.length;
      if (left < 0) return yield failure("internal", `the body is longer than its ${body.length} bytes`);
      if (left === 0) last = part;
      else for (let at = 0; at < part.length; at += pieceBytesMax) yield part.subarray(at, at + pieceBytesMax);
    }
  } catch (error) {
    return yield failure("internal", `the body could not be read: ${codeOf(error)}`);
  }
  if (left > 0) return yield failure("internal", `the body ends ${left} bytes before its ${body.length}`);
  if (last === null) return;
  for (let at = 0; at < last.length; at += pieceBytesMax) yield last.subarray(at, at + pieceBytesMax);
}

const pieceBytesMax = 128 * 1024;
