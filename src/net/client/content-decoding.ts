import { failure, type Failure } from "../../operations/failure.ts";
import { contentCodings, Decompression } from "../message/decompression.ts";
import type { BodySource } from "./reply.ts";

/**
 * A body without its content coding (RFC 9110, 8.4). We send `Accept-Encoding: identity`, but some upstreams compress anyway.
 * One known coding is decoded as it streams, with a limit on the ratio against decompression bombs; anything else is a bad
 * response.
 */
export function decodeContent(source: BodySource, encoding: string | null): BodySource {
  const name = encoding?.trim().toLowerCase() ?? "";
  if (name === "" || name === "identity") return source;
  const format = contentCodings.get(name);
  if (format === undefined) return new UnsupportedEncoding(source);
  return new Decompressed(source, format);
}

class UnsupportedEncoding implements BodySource {
  constructor(private readonly source: BodySource) {}

  next(): ReturnType<BodySource["next"]> {
    this.source.cancel();
    return Promise.resolve(failure("bad_response", "the answer has an encoding that was not asked for"));
  }

  cancel(): void {
    this.source.cancel();
  }
}

class Decompressed implements BodySource {
  private readonly decompression: Decompression<Failure>;

  constructor(
    private readonly source: BodySource,
    format: string,
  ) {
    this.decompression = new Decompression(source, format);
  }

  async next(): ReturnType<BodySource["next"]> {
    const part = await this.decompression.next();
    if (typeof part !== "string") return part;
    if (part === "cancelled") return failure("client_gone", "the answer was cancelled");
    this.source.cancel();
    return failure("bad_response", part === "bomb" ? "the answer decompresses beyond all measure" : "the answer cannot be decompressed");
  }

  cancel(): void {
    this.source.cancel();
    this.decompression.cancel();
  }
}
