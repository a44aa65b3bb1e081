/**
 * What every response begins with: the status line, Date (RFC 9110, 6.6.1), the headers that never change, and the name of the
 * request-id header.
 */
export function responsePrefix(status: number, nowMs: number): Uint8Array {
  if (nowMs >= staleMs) startSecond(nowMs);
  let prefix = prefixes.get(status);
  if (prefix === undefined) {
    prefix = Buffer.from(`HTTP/1.1 ${status} ${reasons[status] ?? "Other"}\r\ndate: ${date}\r\n${constantLines}`, "latin1");
    prefixes.set(status, prefix);
  }
  return prefix;
}

/** The prefixes of one second, by status: Date changes once a second, and writing it takes as long as the rest of a head. */
const prefixes = new Map<number, Uint8Array>();
let date = "";
/** By the monotonic clock, when this second is over. */
let staleMs = Number.NEGATIVE_INFINITY;

function startSecond(nowMs: number): void {
  const wallMs = Date.now();
  prefixes.clear();
  date = new Date(wallMs).toUTCString();
  staleMs = nowMs + 1000 - (wallMs % 1000);
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
