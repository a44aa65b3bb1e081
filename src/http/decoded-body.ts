import { contentCodings, Decompression, type CompressedSource, type DecompressionFault } from "../net/message/decompression.ts";
import type { ResponseHead } from "../net/server/http-response.ts";
import type { IncomingBody, IncomingRequest } from "../net/server/incoming-request.ts";
import { failure, type Failure } from "../operations/failure.ts";
import { unsupportedEncoding } from "./request-errors.ts";

/** The body of a request, as its readers see it: without its content codings. */
export interface RequestBody {
  /** Null if the length is not known before all of it was read. */
  readonly declaredBytes: number | null;
  /** The next part; null at the clean end. "gone": the client has left, or the rest is not wanted. */
  next(): Promise<Uint8Array | null | "gone" | Failure>;
  /** The rest is not wanted. */
  discard(): void;
}

/** What is wrong with the encoding of a body; null if it can be read. The response then lists what can (RFC 9110, 12.5.3). */
export function encodingMistake(request: Pick<IncomingRequest, "header">, head: ResponseHead): Failure | null {
  const encoding = request.header("content-encoding");
  if (encoding === null || formatsOf(encoding) !== null) return null;
  head.add("accept-encoding", acceptedCodings);
  return unsupportedEncoding;
}

/** The body of a request whose encoding has no mistake. Its limits apply to what comes out of it. */
export function decodedBody(body: RawBody, encoding: string | null): RequestBody {
  const formats = encoding === null ? [] : (formatsOf(encoding) ?? []);
  return formats.length === 0 ? body : new DecodedBody(body, formats);
}

/** What undoes the codings, in that order: the last one was applied last (RFC 9110, 8.4). Null if one is unknown, or they are too many. */
export function formatsOf(encoding: string): readonly string[] | null {
  if (encoding.length > encodingCharactersMax) return null;
  const names = encoding
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "" && name !== "identity");
  const formats = names.flatMap((name) => contentCodings.get(name) ?? []);
  return formats.length === names.length && formats.length <= codingsMax ? formats.toReversed() : null;
}

/** Nobody compresses twice on purpose, but a proxy may compress what a client has compressed. */
const codingsMax = 2;
const encodingCharactersMax = 200;

const acceptedCodings = [...contentCodings.keys()].filter((name) => !name.startsWith("x-")).join(", ");

type RawBody = Pick<IncomingBody, "declaredBytes" | "next" | "discard">;
type Stage = Decompression<"gone" | DecompressionFault>;

class DecodedBody implements RequestBody {
  readonly declaredBytes = null;
  private readonly stages: Stage[] = [];
  private readonly decoded: CompressedSource<"gone" | DecompressionFault>;

  constructor(
    private readonly body: RawBody,
    formats: readonly string[],
  ) {
    let source: CompressedSource<"gone" | DecompressionFault> = body;
    for (const format of formats) {
      const stage: Stage = new Decompression(source, format, this.stages[0]);
      this.stages.push(stage);
      source = stage;
    }
    this.decoded = source;
  }

  async next(): Promise<Uint8Array | null | "gone" | Failure> {
    const part = await this.decoded.next();
    if (part === "malformed") return malformed;
    if (part === "bomb") return bomb;
    return part === "cancelled" ? "gone" : part;
  }

  discard(): void {
    this.body.discard();
    for (const stage of this.stages) stage.cancel();
  }
}

const malformed = failure("invalid_request", "the request body cannot be decompressed", {
  message: "The request body is not what its 'Content-Encoding' says: it is damaged, or cut off.",
  status: 400,
  type: "invalid_request_error",
  code: "invalid_encoding",
});

const bomb = failure("too_large", "the request body decompresses beyond all measure", {
  message: "The request body decompresses to more than a hundred times its size. Send it without 'Content-Encoding'.",
  status: 413,
});
