import type { Reply } from "../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { decoded } from "./decoded.ts";

/** A body as it comes. Never throws. */
export interface ByteSource {
  /** The next part; `null` at the clean end. */
  next(): Promise<Uint8Array | null | Failure>;
  cancel(): void;
}

/** The head of an answer with its body, whatever carries it, freed of any content encoding. */
export function replyOf(status: number, header: (name: string) => string | null, source: ByteSource): Reply {
  return new BoundedReply(status, header, decoded(source, header("content-encoding")));
}

class BoundedReply implements Reply {
  readonly kind = "reply";

  constructor(
    readonly status: number,
    readonly header: (name: string) => string | null,
    private readonly source: ByteSource,
  ) {}

  async bytes(bytesMax: number, arrived?: () => void): Promise<Uint8Array | Failure> {
    if (Number(this.header("content-length")) > bytesMax) return this.tooLarge(bytesMax);
    const parts: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      const part = await this.source.next();
      if (part === null) return join(parts, length);
      if (isFailure(part)) return part;
      arrived?.();
      length += part.length;
      if (length > bytesMax) return this.tooLarge(bytesMax);
      parts.push(part);
    }
  }

  next(): Promise<Uint8Array | null | Failure> {
    return this.source.next();
  }

  cancel(): void {
    this.source.cancel();
  }

  private tooLarge(bytesMax: number): Failure {
    this.cancel();
    return failure("bad_response", `the answer is larger than ${bytesMax} bytes`, { status: this.status });
  }
}

function join(parts: readonly Uint8Array[], length: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
