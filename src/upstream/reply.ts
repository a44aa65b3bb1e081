import type { Reply } from "../gateway/ports.ts";
import { failure, type Failure } from "../operations/failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { decoded } from "./decoded.ts";

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** An answer's head with its body, read with a bound and without exceptions. */
export class UpstreamReply implements Reply {
  readonly kind = "reply";
  readonly status: number;
  private reader: Reader | null = null;

  constructor(private readonly response: Response) {
    this.status = response.status;
  }

  header(name: string): string | null {
    return this.response.headers.get(name);
  }

  bytes(bytesMax: number, arrived?: () => void): Promise<Uint8Array | Failure> {
    const { headers } = this.response;
    const length = headers.get("content-length");
    if (length !== null && Number(length) > bytesMax) return Promise.resolve(this.tooLarge(bytesMax));
    // A body of known, allowed length may be read in one go; the transport reports one that ends early.
    if (length !== null && !headers.has("content-encoding")) return this.response.bytes().catch(connectionFailure);
    return this.collect(bytesMax, arrived);
  }

  async next(): Promise<Uint8Array | null | Failure> {
    if (this.reader === null) {
      const body = decoded(this.response);
      if (body === null) return null;
      if ("blame" in body) return body;
      this.reader = body.getReader();
    }
    try {
      const { done, value } = await this.reader.read();
      return done ? null : value;
    } catch (error) {
      return connectionFailure(error);
    }
  }

  cancel(): void {
    (this.reader ?? this.response.body)?.cancel().catch(ignore);
  }

  private async collect(bytesMax: number, arrived?: () => void): Promise<Uint8Array | Failure> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      const chunk = await this.next();
      if (chunk === null) return join(chunks, length);
      if ("blame" in chunk) return chunk;
      arrived?.();
      length += chunk.length;
      if (length > bytesMax) return this.tooLarge(bytesMax);
      chunks.push(chunk);
    }
  }

  private tooLarge(bytesMax: number): Failure {
    this.cancel();
    return failure("bad_response", `the answer is larger than ${bytesMax} bytes`, { status: this.response.status });
  }
}

function join(chunks: readonly Uint8Array[], length: number): Uint8Array {
  if (chunks.length === 1) return chunks[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

function ignore(): void {}
