import type { UpstreamRequest } from "../adapters/adapter.ts";
import type { Exchange, Reply } from "../gateway/ports.ts";
import type { Failure } from "../operations/failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { replyOf, type ByteSource } from "./reply.ts";

/** An exchange through an HTTP proxy, which the runtime's own client knows how to talk to. */
export function proxiedExchange(request: UpstreamRequest, headers: Readonly<Record<string, string>>, proxy: string): Exchange {
  const controller = new AbortController();
  return { reply: exchange(request, headers, proxy, controller.signal), abort: () => controller.abort() };
}

async function exchange(request: UpstreamRequest, headers: Readonly<Record<string, string>>, proxy: string, signal: AbortSignal): Promise<Reply | Failure> {
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers,
      body: request.body,
      signal,
      redirect: "manual",
      decompress: false,
      timeout: false,
      proxy,
    } as RequestInit);
    return replyOf(response.status, (name) => response.headers.get(name), sourceOf(response));
  } catch (error) {
    return connectionFailure(error);
  }
}

function sourceOf(response: Response): ByteSource {
  const reader = response.body?.getReader();
  return {
    async next() {
      try {
        const part = await reader?.read();
        return part === undefined || part.done ? null : part.value;
      } catch (error) {
        return connectionFailure(error);
      }
    },
    cancel: () => void reader?.cancel().catch(() => {}),
  };
}
