/**
 * What every response begins with: the status line, Date (RFC 9110, 6.6.1), the headers that never change, and the name of the
 * request-id header.
 */
export function responsePrefix(status: number): string {
  return `HTTP/1.1 ${status} ${reasons[status] ?? "Other"}\r\ndate: ${httpDate()}\r\n${constantLines}`;
}

/** The value of Date changes once a second, and writing it takes as long as the rest of a head. */
function httpDate(): string {
  const nowMs = Date.now();
  const second = nowMs - (nowMs % 1000);
  if (second !== date.second) date = { second, text: new Date(second).toUTCString() };
  return date.text;
}

let date = { second: Number.NaN, text: "" };

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
