import type { UpstreamRequest } from "../adapters/adapter.ts";
import type { Exchange, Reply } from "../gateway/ports.ts";
import { failure, type Failure } from "../operations/failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { replyOf, type ByteSource } from "./reply.ts";

/** An exchange through an HTTP proxy, which the runtime's own client knows how to talk to. */
export function proxiedExchange(request: UpstreamRequest, headers: Readonly<Record<string, string>>, proxy: string): Exchange {
  const controller = new AbortController();
  return { reply: exchange(request, headers, proxy, controller), abort: () => controller.abort() };
}

async function exchange(
  request: UpstreamRequest,
  headers: Readonly<Record<string, string>>,
  proxy: string,
  controller: AbortController,
): Promise<Reply | Failure> {
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers,
      body: request.body,
      signal: controller.signal,
      redirect: "manual",
      decompress: false,
      timeout: false,
      proxy,
    } as RequestInit);
    return replyOf(response.status, (name) => response.headers.get(name), sourceOf(response, controller));
  } catch (error) {
    return failureOf(error, controller);
  }
}

function sourceOf(response: Response, controller: AbortController): ByteSource {
  const reader = response.body?.getReader();
  return {
    async next() {
      try {
        const part = await reader?.read();
        return part === undefined || part.done ? null : part.value;
      } catch (error) {
        return failureOf(error, controller);
      }
    },
    // A reader that is cancelled would tell whoever waits that this was the end.
    cancel: () => controller.abort(),
  };
}

function failureOf(error: unknown, { signal }: AbortController): Failure {
  return signal.aborted ? failure("client_gone", "the exchange was aborted") : connectionFailure(error);
}
