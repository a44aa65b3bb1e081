import { failure, type Failure } from "../operations/failure.ts";

/**
 * A body without its content encoding. We ask for none, but some upstreams compress anyway. One known encoding is
 * undone as it streams, with a bound on how much a little input may become; anything else is a bad answer.
 */
export function decoded(response: Response): ReadableStream<Uint8Array> | Failure | null {
  const { body } = response;
  if (body === null) return null;
  const encoding = response.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") return body;
  const format = formats[encoding];
  if (format === undefined) {
    body.cancel().catch(ignore);
    return failure("bad_response", "the answer has an encoding that was not asked for", { status: response.status });
  }
  const meter = { in: 0, out: 0 };
  return body
    .pipeThrough(counting((bytes) => (meter.in += bytes)))
    .pipeThrough(new DecompressionStream(format as CompressionFormat) as unknown as TransformStream<Uint8Array, Uint8Array>)
    .pipeThrough(
      counting((bytes) => {
        meter.out += bytes;
        if (meter.out > bombBytes && meter.out > meter.in * ratioMax) throw new RangeError("decompresses beyond all measure");
      }),
    );
}

const formats: { readonly [encoding: string]: string } = { gzip: "gzip", "x-gzip": "gzip", deflate: "deflate", br: "brotli", zstd: "zstd" };
const ratioMax = 100;
/** Small bodies may compress better than the ratio and do no harm. */
const bombBytes = 1024 * 1024;

function counting(count: (bytes: number) => void): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform(chunk, controller) {
      count(chunk.byteLength);
      controller.enqueue(chunk);
    },
  });
}

function ignore(): void {}
