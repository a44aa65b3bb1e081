import type { Reply } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { decoded } from "./decoded.ts";

/** A body as it comes. Never throws. */
export interface BodySource {
  /** The next part; `null` at the clean end. */
  next(): Promise<Uint8Array | null | Failure>;
  /** The next part, where it is there already, and null where that is not so. */
  ready?(): Uint8Array | null;
  /** All of it, where it is there already in one piece, and null where that is not so. */
  whole?(): Uint8Array | null;
  cancel(): void;
}

/** The head of an answer with its body, whatever carries it, freed of any content encoding. */
export function replyOf(status: number, headers: Headers, source: BodySource): Reply {
  return new BoundedReply(status, headers, decoded(source, headers.get("content-encoding") ?? null));
}

/** By lower-case name; as a list of lines has them, or the runtime's own. */
interface Headers {
  get(name: string): string | null | undefined;
}

class BoundedReply implements Reply {
  readonly kind = "reply";

  constructor(
    readonly status: number,
    private readonly headers: Headers,
    private readonly source: BodySource,
  ) {}

  header(name: string): string | null {
    return this.headers.get(name) ?? null;
  }

  bytes(bytesMax: number, progress?: { bytesArrived(): void }): Uint8Array | Failure | Promise<Uint8Array | Failure> {
    if (Number(this.header("content-length")) > bytesMax) return this.tooLarge(bytesMax);
    const whole = this.source.whole?.() ?? null;
    if (whole === null) return this.gathered(bytesMax, progress);
    return whole.length > bytesMax ? this.tooLarge(bytesMax) : whole;
  }

  private async gathered(bytesMax: number, progress?: { bytesArrived(): void }): Promise<Uint8Array | Failure> {
    // Not a list of parts: they may be single bytes, each of which would cost a hundred times that.
    let whole: Uint8Array = nothing;
    let length = 0;
    for (;;) {
      const part = await this.source.next();
      if (part === null) return whole.subarray(0, length);
      if (isFailure(part)) return part;
      progress?.bytesArrived();
      if (length + part.length > bytesMax) return this.tooLarge(bytesMax);
      // Mostly there is one part only, which needs no copy.
      if (length === 0) whole = part;
      else whole = appended(whole, length, part);
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

/** In place where there is room, else in twice the room. */
function appended(whole: Uint8Array, length: number, part: Uint8Array): Uint8Array {
  const room = length + part.length <= whole.length ? whole : new Uint8Array(2 * (length + part.length));
  if (room !== whole) room.set(whole.subarray(0, length));
  room.set(part, length);
  return room;
}
