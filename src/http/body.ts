import { failure, isFailure, type Failure } from "../operations/failure.ts";

/** Reads a request body with a bound on its size and on its time. What is too large is refused before it is held. */
export async function readBody(request: Request, limits: BodyLimits): Promise<Uint8Array | Failure> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > limits.bytesMax) return tooLarge(limits.bytesMax);
  if (request.body === null) return nothing;
  let disarm = (): void => {};
  const slow = new Promise<Failure>((resolve) => {
    disarm = limits.after(limits.readMs, () => resolve(tooSlow(limits.readMs)));
  });
  const read = declared === null ? collect(request.body, limits.bytesMax) : request.bytes();
  try {
    const body = await Promise.race([read, slow]);
    if (isFailure(body)) read.catch(ignore);
    return body;
  } catch {
    return failure("client_gone", "the client left while it sent its request");
  } finally {
    disarm();
  }
}

export interface BodyLimits {
  readonly bytesMax: number;
  readonly readMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
}

/** A body without a declared length is counted as it comes. */
async function collect(body: ReadableStream<Uint8Array>, bytesMax: number): Promise<Uint8Array | Failure> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > bytesMax) return tooLarge(bytesMax);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

function tooLarge(bytesMax: number): Failure {
  return failure("too_large", "the request body is too large", {
    message: `The request body is larger than ${bytesMax} bytes.`,
    status: 413,
  });
}

function tooSlow(readMs: number): Failure {
  return failure("invalid_request", "the request body came too slowly", {
    message: `The request body was not complete within ${Math.round(readMs / 1000)} seconds.`,
    status: 408,
  });
}

const nothing = new Uint8Array(0);

function ignore(): void {}
