import type net from "node:net";
import { Duplex } from "node:stream";
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

/**
 * Carries a TLS connection inside another one, to a proxy. The runtime keeps reading the outer connection even while the inner one is
 * paused; this stream can be paused.
 */
export class TunnelStream extends Duplex {
  private isStopped = false;
  private isPassing = false;

  constructor(private readonly outer: net.Socket) {
    super({ allowHalfOpen: false });
    outer.on("readable", () => this.pass());
    outer.on("end", () => this.push(null));
    outer.on("close", () => this.destroy());
    outer.on("error", (error) => this.destroy(error));
  }

  /** What arrives from now on stays with the system. */
  stop(): void {
    this.isStopped = true;
  }

  go(): void {
    if (!this.isStopped) return;
    this.isStopped = false;
    this.pass();
  }

  override _read(): void {}

  override _write(chunk: Uint8Array, _: string, done: (error?: Error | null) => void): void {
    this.outer.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.outer.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.outer.destroy();
    done(error);
  }

  private pass(): void {
    if (this.isPassing) return;
    this.isPassing = true;
    while (!this.isStopped) {
      const chunk = this.outer.read() as Buffer | null;
      if (chunk === null) break;
      this.push(chunk);
    }
    this.isPassing = false;
  }
}
