import { failure, isFailure } from "../../operations/failure.ts";
import type { BodySource } from "./reply.ts";

/**
 * A body without its content coding (RFC 9110, 8.4). We send `Accept-Encoding: identity`, but some upstreams compress anyway.
 * One known coding is decoded as it streams, with a limit on the ratio against decompression bombs; anything else is a bad
 * response.
 */
export function decodeContent(source: BodySource, encoding: string | null): BodySource {
  const name = encoding?.trim().toLowerCase() ?? "";
  if (name === "" || name === "identity") return source;
  const format = formats.get(name);
  if (format === undefined) return new UnsupportedEncoding(source);
  return new Decompressed(source, format);
}

const formats: ReadonlyMap<string, string> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
  ["br", "brotli"],
  ["zstd", "zstd"],
]);

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
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  private bytesIn = 0;
  private bytesOut = 0;
  private cancelled = false;

  constructor(
    private readonly source: BodySource,
    format: string,
  ) {
    const compressed = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: async (controller) => {
        const part = await source.next();
        if (part === null) controller.close();
        else if (isFailure(part)) controller.error(part);
        else {
          this.bytesIn += part.length;
          controller.enqueue(part as Uint8Array<ArrayBuffer>);
        }
      },
    });
    this.reader = compressed.pipeThrough(new DecompressionStream(format as CompressionFormat)).getReader();
  }

  async next(): ReturnType<BodySource["next"]> {
    try {
      const { done, value } = await this.reader.read();
      // A cancelled reader reports that it is done, which must not be taken for the end of the body.
      if (done) return this.cancelled ? failure("client_gone", "the answer was cancelled") : null;
      this.bytesOut += value.length;
      if (this.bytesOut <= bombBytes || this.bytesOut <= this.bytesIn * ratioMax) return value;
      this.cancel();
      return failure("bad_response", "the answer decompresses beyond all measure");
    } catch (error) {
      if (typeof error === "object" && error !== null && isFailure(error)) return error;
      this.source.cancel();
      return failure("bad_response", "the answer cannot be decompressed");
    }
  }

  cancel(): void {
    this.cancelled = true;
    this.source.cancel();
    this.reader.cancel().catch(ignore);
  }
}

const ratioMax = 100;
/** Small bodies may have a higher ratio and do no harm. */
const bombBytes = 1024 * 1024;

function ignore(): void {}
