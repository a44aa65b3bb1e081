/**
 * The bytes that every response begins with, cached by status for one second: the status line, Date (RFC 9110, 6.6.1), the
 * headers that never change, and the name of the request-id header.
 */
export class ResponsePrefixes {
  private readonly prefixes = new Map<number, Uint8Array>();
  private cachedMs = -Infinity;

  get(status: number, nowMs: number): Uint8Array {
    if (nowMs - this.cachedMs >= 1000) {
      this.cachedMs = nowMs;
      this.prefixes.clear();
    }
    let prefix = this.prefixes.get(status);
    if (prefix === undefined) this.prefixes.set(status, (prefix = makePrefix(status)));
    return prefix;
  }
}

function makePrefix(status: number): Uint8Array {
  const date = new Date().toUTCString();
  return encoder.encode(`HTTP/1.1 ${status} ${reasons[status] ?? "Other"}\r\ndate: ${date}\r\n${constantLines}`);
}

const constantLines = "vary: authorization\r\nx-content-type-options: nosniff\r\nx-request-id: ";

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  499: "Client Closed Request",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
};

const encoder = new TextEncoder();
