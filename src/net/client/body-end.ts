import type { HeaderLines } from "../message/header-lines.ts";

/**
 * What a body that only the close of its connection ends shows of its end. Over TLS a close proves nothing: anybody on the way
 * can make one, the alert that would tell (close_notify) is left out by many servers, and the runtime does not say whether it
 * came. So a body must be whole by its own words: a JSON document and a stream of events are, and whoever reads them knows.
 * Anything else is taken for cut.
 */
export class BodyEnd {
  private first = 0;
  private last = 0;

  note(bytes: Uint8Array): void {
    for (let at = 0; this.first === 0 && at < bytes.length; at++) if (!isSpace(bytes[at]!)) this.first = bytes[at]!;
    for (let at = bytes.length - 1; at >= 0; at--) {
      if (isSpace(bytes[at]!)) continue;
      this.last = bytes[at]!;
      return;
    }
  }

  /** A JSON document under another name, whose reader will know. */
  get isDocument(): boolean {
    return this.first === openBrace && this.last === closeBrace;
  }
}

/** Whether a successful answer over TLS is ended by nothing but the close of its connection, and does not say of its end itself. */
export function endsUnproven(status: number, headers: HeaderLines): boolean {
  if (status < 200 || status > 299 || status === 204) return false;
  if (headers.has("content-length") || headers.has("transfer-encoding")) return false;
  // A compressed body knows its end.
  if (!/^(?:identity)?$/i.test(headers.get("content-encoding") ?? "")) return false;
  return !/^(?:application\/(?:[\w.+-]+\+)?json|text\/event-stream)\b/i.test(headers.get("content-type") ?? "");
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}

const openBrace = 0x7b;
const closeBrace = 0x7d;
