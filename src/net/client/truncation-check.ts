import type { HeaderLines } from "../message/header-lines.ts";

/**
 * Checks a body that is delimited only by the close of its TLS connection. Such a close proves nothing: without the close_notify
 * alert an attacker could have truncated the body (RFC 9112, 9.8), many servers do not send the alert, and the runtime does not
 * tell whether it came. So the body itself must show that it is complete: a JSON document and an event stream do, and their
 * readers check that. Anything else counts as truncated.
 */
export class TruncationCheck {
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

  /** Whether it looks like a JSON document, whatever its media type; its reader finds out whether it is complete. */
  get isJsonDocument(): boolean {
    return this.first === openBrace && this.last === closeBrace;
  }
}

/**
 * Whether a successful response over TLS is delimited only by the close of the connection, and its format does not show its end.
 */
export function needsTruncationCheck(status: number, headers: HeaderLines): boolean {
  if (status < 200 || status > 299 || status === 204) return false;
  if (headers.has("content-length") || headers.has("transfer-encoding")) return false;
  // Compressed formats mark their end.
  if (!/^(?:identity)?$/i.test(headers.get("content-encoding") ?? "")) return false;
  return !/^(?:application\/(?:[\w.+-]+\+)?json|text\/event-stream)\b/i.test(headers.get("content-type") ?? "");
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}

const openBrace = 0x7b;
const closeBrace = 0x7d;
