import type { StreamedBody, UpstreamRequest } from "../../dialects/dialect.ts";
import type { Exchange, Reply } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { pieces } from "./pieces.ts";
import { replyOf, type BodySource } from "./reply.ts";

/** An exchange through an HTTP proxy, by the runtime's own client, which supports proxies. */
export function proxiedExchange(request: UpstreamRequest, headers: Readonly<Record<string, string>>, proxy: string): Exchange {
  const exchange = new ProxiedExchange();
  return { reply: exchange.begin(request, headers, proxy), abort: () => exchange.cancel() };
}

class ProxiedExchange implements BodySource {
  private readonly controller = new AbortController();
  private reader: ReadableStreamDefaultReader<Uint8Array> | null = null;
  /** What was wrong with the request body. */
  private unsendable: Failure | null = null;

  async begin({ method, url, body }: UpstreamRequest, headers: Readonly<Record<string, string>>, proxy: string): Promise<Reply | Failure> {
    const isStreamed = body !== null && !(body instanceof Uint8Array);
    try {
      const response = await fetch(url, {
        method,
        headers: isStreamed ? { ...headers, "content-length": `${body.length}` } : headers,
        body: isStreamed ? this.streamed(body) : body,
        signal: this.controller.signal,
        redirect: "manual",
        decompress: false,
        timeout: false,
        // The runtime cannot send a streamed body again, so it must not use a connection that may be stale.
        keepalive: !isStreamed,
        proxy,
      } as RequestInit);
      this.reader = response.body?.getReader() ?? null;
      return replyOf(response.status, response.headers, this);
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

  private streamed(body: StreamedBody): ReadableStream<Uint8Array> {
    const rest = pieces(body);
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const { done, value } = await rest.next();
      if (done) return controller.close();
      if (!isFailure(value)) return controller.enqueue(value);
      this.unsendable = value;
      this.controller.abort();
      controller.error(new Error(value.detail));
    };
    return new ReadableStream<Uint8Array>({ pull, cancel: async () => void (await rest.return()) }, { highWaterMark: 0 });
  }

  private failureOf(error: unknown): Failure {
    if (this.unsendable !== null) return this.unsendable;
    return this.controller.signal.aborted ? failure("client_gone", "the exchange was aborted") : connectionFailure(error);
  }
}
