/** The content codings that can be undone (RFC 9110, 8.4.1; RFC 8878), and the runtime's names for them. */
export const contentCodings: ReadonlyMap<string, string> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
  ["br", "brotli"],
  ["zstd", "zstd"],
]);

/** What a compressed body is read from. `Cause` says why it will never be complete. */
export interface CompressedSource<Cause> {
  next(): Promise<Uint8Array | null | Cause>;
}

/** Why bytes cannot be decompressed: they are damaged or cut off, they are a bomb, or nobody wants them any more. */
export type DecompressionFault = "malformed" | "bomb" | "cancelled";

/**
 * Decompresses a body as it is read. A part of at most 64 KiB is made at a time, and a body that expands beyond all measure is
 * given up early, so that a few bytes can fill neither the memory nor the time of the process (a decompression bomb).
 */
export class Decompression<Cause> {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  /** What was read from the source so far. */
  bytesIn = 0;
  private bytesOut = 0;
  private cause: Cause | null = null;
  private isCancelled = false;

  constructor(
    source: CompressedSource<Cause>,
    format: string,
    /** The first of several decompressions, whose input is what was received: the ratios of two multiply. */
    private readonly first: { readonly bytesIn: number } | null = null,
  ) {
    const compressed = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: async (controller) => {
        const part = await source.next();
        if (part === null) controller.close();
        else if (part instanceof Uint8Array) {
          this.bytesIn += part.length;
          controller.enqueue(part as Uint8Array<ArrayBuffer>);
        } else {
          this.cause = part;
          controller.error(new Error("the compressed body will never be complete"));
        }
      },
    });
    this.reader = compressed.pipeThrough(new DecompressionStream(format as CompressionFormat)).getReader();
  }

  async next(): Promise<Uint8Array | null | Cause | DecompressionFault> {
    try {
      const { done, value } = await this.reader.read();
      // A cancelled reader reports that it is done, which must not be taken for the end of the body.
      if (done) return this.isCancelled ? "cancelled" : null;
      this.bytesOut += value.length;
      if (this.bytesOut <= harmlessBytes || this.bytesOut <= (this.first ?? this).bytesIn * ratioMax) return value;
      this.cancel();
      return "bomb";
    } catch {
      return this.cause ?? "malformed";
    }
  }

  cancel(): void {
    this.isCancelled = true;
    this.reader.cancel().catch(ignore);
  }
}

const ratioMax = 100;
/** Small bodies may have a higher ratio and do no harm. */
const harmlessBytes = 1024 * 1024;

function ignore(): void {}
