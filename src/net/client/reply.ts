import type { Reply } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { noHeaders } from "../message/header-lines.ts";
import { decodeContent } from "./content-decoding.ts";

/** A body that is arriving. Its methods never throw. */
export interface BodySource {
  /** The next part; `null` at the clean end. */
  next(): Promise<Uint8Array | null | Failure>;
  /** The next part if it has arrived, else null. */
  ready?(): Uint8Array | null;
  /** The whole body if it has arrived in one part, else null. */
  whole?(): Uint8Array | null;
  cancel(): void;
}

/** A response with its body, whatever transport it came by, without its content coding. */
export function makeReply(status: number, headers: Headers, source: BodySource): Reply {
  return new BoundedReply(status, headers, decodeContent(source, headers.get("content-encoding") ?? null));
}

/** By lower-case name, as in HeaderLines. */
interface Headers {
  get(name: string): string | null | undefined;
}

class BoundedReply implements Reply {
  readonly kind = "reply";

  constructor(
    readonly status: number,
    private headers: Headers,
    private readonly source: BodySource,
  ) {}

  header(name: string): string | null {
    return this.headers.get(name) ?? null;
  }

  dropHeaders(): void {
    this.headers = noHeaders;
  }

  bytes(bytesMax: number, progress?: { bytesArrived(): void }): Uint8Array | Failure | Promise<Uint8Array | Failure> {
    if (Number(this.header("content-length")) > bytesMax) return this.tooLarge(bytesMax);
    const whole = this.source.whole?.() ?? null;
    if (whole === null) return this.collect(bytesMax, progress);
    return whole.length > bytesMax ? this.tooLarge(bytesMax) : whole;
  }

  private async collect(bytesMax: number, progress?: { bytesArrived(): void }): Promise<Uint8Array | Failure> {
    // Not a list of parts: they may be single bytes, and each object takes a hundred times that.
    let whole: Uint8Array = nothing;
    let length = 0;
    for (;;) {
      const part = await this.source.next();
      if (part === null) return whole.subarray(0, length);
      if (isFailure(part)) return part;
      progress?.bytesArrived();
      if (length + part.length > bytesMax) return this.tooLarge(bytesMax);
      // Usually there is only one part, which needs no copy.
      if (length === 0) whole = part;
      else whole = append(whole, length, part);
      length += part.length;
    }
  }

  ready(): Uint8Array | null {
    return this.source.ready?.() ?? null;
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

const nothing = new Uint8Array();

/** Appends in place if there is room, else in a buffer of twice the size. */
function append(whole: Uint8Array, length: number, part: Uint8Array): Uint8Array {
  const room = length + part.length <= whole.length ? whole : new Uint8Array(2 * (length + part.length));
  if (room !== whole) room.set(whole.subarray(0, length));
  room.set(part, length);
  return room;
}
