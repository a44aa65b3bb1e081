import { failure, type Failure } from "../operations/failure.ts";

/** Reads a request body with a bound on its size and on its time. What is too large is refused before it is held. */
export function readBody(request: Request, limits: BodyLimits): Promise<Uint8Array | Failure> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > limits.bytesMax) return Promise.resolve(tooLarge(limits.bytesMax));
  // Only a body without a declared length needs to be counted as it comes; touching the stream makes any body slower.
  return within(declared === null ? collect(request, limits.bytesMax) : request.bytes(), limits);
}

export interface BodyLimits {
  readonly bytesMax: number;
  readonly readMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
}

function within(reading: Promise<Uint8Array | Failure>, { readMs, after }: BodyLimits): Promise<Uint8Array | Failure> {
  return new Promise((resolve) => {
    const disarm = after(readMs, () => resolve(tooSlow(readMs)));
    reading.then(
      (body) => {
        disarm();
        resolve(body);
      },
      () => {
        disarm();
        resolve(failure("client_gone", "the client left while it sent its request"));
      },
    );
  });
}

async function collect({ body }: Request, bytesMax: number): Promise<Uint8Array | Failure> {
  if (body === null) return nothing;
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
