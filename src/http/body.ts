import { failure, type Failure } from "../operations/failure.ts";
import { noMemory } from "./overload/load-shed.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";

/**
 * The whole body if it arrived with the head, as most do; null if there is more to come. A body that is declared too large is
 * rejected before it is read.
 */
export function wholeBody({ body }: IncomingRequest, bytesMax: number): Uint8Array | Failure | null {
  if (body.declaredBytes !== null && body.declaredBytes > bytesMax) return tooLarge(bytesMax);
  const whole = body.whole();
  return whole !== null && whole.length > bytesMax ? tooLarge(bytesMax) : whole;
}

/** Reads the rest of a request body, with limits on size and time. */
export function readBody({ body }: IncomingRequest, limits: BodyLimits): Promise<Uint8Array | Failure> {
  const { promise: late, resolve } = Promise.withResolvers<Failure>();
  const disarm = limits.after(limits.readMs, () => resolve(tooSlow(limits.readMs)));
  return Promise.race([collect(body, limits), late]).finally(disarm);
}

export interface BodyLimits {
  readonly bytesMax: number;
  readonly readMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Whether there is memory for so many more bytes. */
  readonly hasRoom: (bytes: number) => boolean;
}

async function collect(body: IncomingRequest["body"], { bytesMax, hasRoom }: BodyLimits): Promise<Uint8Array | Failure> {
  // The buffer grows with the bytes that arrive, not with the declared length, or a header alone could allocate it.
  let room: Uint8Array = nothing;
  let length = 0;
  for (;;) {
    const part = await body.next();
    if (part === "gone") return failure("client_gone", "the client left while it sent its request");
    if (part === "end") return room.length === length ? room : room.subarray(0, length);
    if (length + part.length > bytesMax) return tooLarge(bytesMax);
    if (length + part.length > room.length) {
      const wished = Math.max(2 * (length + part.length), firstBytes);
      const bytes = body.declaredBytes === null ? wished : Math.min(wished, body.declaredBytes);
      if (bytes > smallBytes && !hasRoom(bytes)) return noRoom;
      const grown = new Uint8Array(bytes);
      grown.set(length === room.length ? room : room.subarray(0, length));
      room = grown;
    }
    room.set(part, length);
    length += part.length;
  }
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

const noRoom = failure("saturated", "no memory for a large body", { message: noMemory });
const nothing = new Uint8Array(0);
const firstBytes = 64 * 1024;
/** Bodies up to this size are always accepted. */
const smallBytes = 1024 * 1024;
