import type net from "node:net";
import { failure, type Failure } from "../../operations/failure.ts";
import { ResponseParser } from "./response-parser.ts";

/**
 * Asks a proxy to pass on everything that follows to an upstream (CONNECT; RFC 9110, 9.3.6). `onAnswer` is called once, unless the
 * connection ends before: with null if the proxy does so.
 */
export function openTunnel(
  socket: net.Socket,
  { hostname, port }: { readonly hostname: string; readonly port: number },
  onAnswer: (refusal: Failure | null) => void,
): void {
  let status: number | null = null;
  let hasMore = false;
  const parser = new ResponseParser({
    onHead: (code) => (status = code),
    // An answer to CONNECT has no body, and an upstream that speaks TLS waits for us.
    onBody: () => (hasMore = true),
    onEnd: () => {},
  });
  const onData = (chunk: Buffer): void => {
    const problem = parser.feed(chunk);
    if (problem === null && status === null) return;
    socket.off("data", onData);
    if (problem !== null) onAnswer(failure("bad_response", `the proxy's answer cannot be used: ${problem}`));
    else onAnswer(refusalOf(status ?? 0, hasMore));
  };
  const authority = `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
  socket.on("data", onData);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\nuser-agent: sluice\r\n\r\n`);
}

function refusalOf(status: number, hasMore: boolean): Failure | null {
  const answered = `the proxy answered ${status} to CONNECT`;
  // It would have reached the upstream, and could not.
  if (status >= 500) return failure("unreachable", answered);
  if (status >= 300) return failure("misconfigured", answered);
  return hasMore ? failure("bad_response", `${answered}, and sent more`) : null;
}
