import { failure, type Failure } from "../../operations/failure.ts";
import { crc32 } from "./crc32.ts";

/** One message of an `application/vnd.amazon.eventstream`. */
export interface EventStreamMessage {
  /** The headers whose values are text; all that matter are. */
  readonly headers: ReadonlyMap<string, string>;
  readonly payload: Uint8Array;
}

/**
 * Splits bytes into messages. Each has a prelude (its length, that of its headers, and a checksum of both), headers, a payload, and a
 * checksum of everything. The lengths are believed only after their checksum, and within bounds.
 */
export class EventStreamSplitter {
  private buffer = new Uint8Array(initialBytes);
  private start = 0;
  private end = 0;

  /** The complete messages of the bytes so far, and what is wrong after them. */
  push(chunk: Uint8Array): { readonly messages: readonly EventStreamMessage[]; readonly broken: Failure | null } {
    this.append(chunk);
    const messages: EventStreamMessage[] = [];
    for (;;) {
      const message = this.next();
      if (message === null) return { messages, broken: null };
      if ("blame" in message) return { messages, broken: message };
      messages.push(message);
    }
  }

  /** Whether bytes of an incomplete message are left. */
  get hasRest(): boolean {
    return this.end > this.start;
  }

  private next(): EventStreamMessage | Failure | null {
    const available = this.end - this.start;
    if (available < preludeBytes) return null;
    const view = new DataView(this.buffer.buffer, this.start, available);
    const total = view.getUint32(0);
    const headersLength = view.getUint32(4);
    if (crc32(this.buffer.subarray(this.start, this.start + 8)) !== view.getUint32(8)) return broken("a wrong checksum of a prelude");
    if (total > messageMax || headersLength > headersMax) return broken("a message that is too large");
    if (total < preludeBytes + headersLength + checksumBytes) return broken("a message that is shorter than its parts");
    if (available < total) return null;
    const from = this.start;
    this.start += total;
    const bodyEnd = from + total - checksumBytes;
    if (crc32(this.buffer.subarray(from, bodyEnd)) !== view.getUint32(total - checksumBytes))
      return broken("a wrong checksum of a message");
    const headersEnd = from + preludeBytes + headersLength;
    const headers = readHeaders(this.buffer.subarray(from + preludeBytes, headersEnd));
    if (headers === null) return broken("headers that cannot be read");
    // The buffer is used again, so the payload is copied.
    return { headers, payload: this.buffer.slice(headersEnd, bodyEnd) };
  }

  private append(chunk: Uint8Array): void {
    const kept = this.end - this.start;
    if (this.end + chunk.length > this.buffer.length) {
      const needed = kept + chunk.length;
      let size = this.buffer.length;
      while (size < needed) size *= 2;
      const target = size === this.buffer.length ? this.buffer : new Uint8Array(size);
      target.set(this.buffer.subarray(this.start, this.end));
      this.buffer = target;
      this.start = 0;
      this.end = kept;
    }
    this.buffer.set(chunk, this.end);
    this.end += chunk.length;
  }
}

const initialBytes = 16 * 1024;
const preludeBytes = 12;
const checksumBytes = 4;
/** The limits of the format itself are 24 MB and 128 KiB. */
const messageMax = 16 * 1024 * 1024;
const headersMax = 128 * 1024;

function broken(what: string): Failure {
  return failure("bad_response", `the event stream has ${what}`);
}

/** Null if a header is cut off or has an unknown type. */
function readHeaders(bytes: Uint8Array): ReadonlyMap<string, string> | null {
  const headers = new Map<string, string>();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  while (at < bytes.length) {
    const nameLength = view.getUint8(at);
    const typeAt = at + 1 + nameLength;
    if (nameLength === 0 || typeAt >= bytes.length) return null;
    const type = view.getUint8(typeAt);
    const valueAt = typeAt + 1;
    const hasLength = type === typeBytes || type === typeText;
    if (hasLength && valueAt + 2 > bytes.length) return null;
    const from = hasLength ? valueAt + 2 : valueAt;
    const length = hasLength ? view.getUint16(valueAt) : fixedLengths[type];
    if (length === undefined || from + length > bytes.length) return null;
    if (type === typeText) headers.set(decoder.decode(bytes.subarray(at + 1, typeAt)), decoder.decode(bytes.subarray(from, from + length)));
    at = from + length;
  }
  return headers;
}

/** The lengths of true, false, byte, short, integer, long, (bytes, text,) timestamp and UUID. */
const fixedLengths: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 };
const typeBytes = 6;
const typeText = 7;
const decoder = new TextDecoder();
