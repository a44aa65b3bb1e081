import type { StreamedBody, UpstreamRequest } from "../../dialects/dialect.ts";
import type { Exchange, Reply } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { bodyPieces } from "./body-pieces.ts";
import { makeReply, type BodySource } from "./reply.ts";

/** An exchange through an HTTP proxy, by the runtime's own client, which supports proxies. */
export function startProxiedExchange(request: UpstreamRequest, headers: Readonly<Record<string, string>>, proxy: string): Exchange {
  const exchange = new ProxiedExchange();
  return { reply: exchange.start(request, headers, proxy), abort: () => exchange.cancel() };
}

class ProxiedExchange implements BodySource {
  private readonly controller = new AbortController();
  private reader: ReadableStreamDefaultReader<Uint8Array> | null = null;
  /** What was wrong with the request body. */
  private bodyFailure: Failure | null = null;

  async start({ method, url, body }: UpstreamRequest, headers: Readonly<Record<string, string>>, proxy: string): Promise<Reply | Failure> {
    const isStreamed = body !== null && !(body instanceof Uint8Array);
    try {
      const response = await fetch(url, {
        method,
        headers: isStreamed ? { ...headers, "content-length": `${body.length}` } : headers,
        body: isStreamed ? this.streamOf(body) : body,
        signal: this.controller.signal,
        redirect: "manual",
        decompress: false,
        timeout: false,
        // The runtime cannot send a streamed body again, so it must not use a connection that may be stale.
        keepalive: !isStreamed,
        proxy,
      } as RequestInit);
      this.reader = response.body?.getReader() ?? null;
      return makeReply(response.status, response.headers, this);
    } catch (error) {
      return this.failureOf(error);
    }
  }

  async next(): ReturnType<BodySource["next"]> {
    try {
      const part = await this.reader?.read();
      return part === undefined || part.done ? null : part.value;
    } catch (error) {
      return this.failureOf(error);
    }
  }

  /** Aborts instead of cancelling the reader, which would look like the end of the body. */
  cancel(): void {
    this.controller.abort();
  }

  private streamOf(body: StreamedBody): ReadableStream<Uint8Array> {
    const pieces = bodyPieces(body);
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const { done, value } = await pieces.next();
      if (done) return controller.close();
      if (!isFailure(value)) return controller.enqueue(value);
      this.bodyFailure = value;
      this.controller.abort();
      controller.error(new Error(value.detail));
    };
    return new ReadableStream<Uint8Array>({ pull, cancel: async () => void (await pieces.return()) }, { highWaterMark: 0 });
  }

  private failureOf(error: unknown): Failure {
    if (this.bodyFailure !== null) return this.bodyFailure;
    return this.controller.signal.aborted ? failure("client_gone", "the exchange was aborted") : connectionFailure(error);
  }
}
