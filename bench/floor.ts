import { createHash, timingSafeEqual } from "node:crypto";

/**
 * The smallest honest pass-through on this runtime: it checks the key by its hash, parses the body, looks at each event of a stream (audio it passes unseen),
 * keeps back-pressure and lets the upstream go when the client goes. What a gateway costs above this is what the gateway itself costs.
 */
const [upstreamUrl = "", key = ""] = process.argv.slice(2);
const speechPath = "/v1/audio/speech";
const expectedHash = createHash("sha256").update(key).digest();

const server = Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 120, fetch: serve });
process.stdin.on("end", () => process.exit(0)).resume();
console.log(JSON.stringify({ event: "listening", url: server.url.origin }));

async function serve(request: Request): Promise<Response> {
  if (request.method === "GET") return new Response("ok\n");
  const given = request.headers.get("authorization")?.slice("Bearer ".length) ?? "";
  if (!timingSafeEqual(createHash("sha256").update(given).digest(), expectedHash)) return refusal(401, "invalid_api_key");
  const body = await request.text();
  const asked = parsed(body);
  if (asked === null) return refusal(400, "invalid_json");

  const { pathname } = new URL(request.url);
  const departure = new AbortController();
  request.signal.addEventListener("abort", () => departure.abort(), { once: true });
  const answer = await fetch(upstreamUrl + pathname, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer upstream", "accept-encoding": "identity" },
    body,
    signal: departure.signal,
    redirect: "manual",
    decompress: false,
    timeout: false,
  } as RequestInit);
  const headers = { "content-type": answer.headers.get("content-type") ?? "application/json" };
  const isAudio = pathname === speechPath && answer.status === 200;
  if (!(asked.stream || isAudio) || answer.body === null) {
    return new Response(await answer.arrayBuffer(), { status: answer.status, headers });
  }
  server.timeout(request, 0);
  const look = isAudio ? () => undefined : eventScanner();
  return new Response(watched(answer.body, look, departure), { status: answer.status, headers });
}

function watched(
  upstream: ReadableStream<Uint8Array>,
  look: (bytes: Uint8Array) => unknown,
  departure: AbortController,
): ReadableStream<Uint8Array> {
  const reader = upstream.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        look(value);
        controller.enqueue(value);
      },
      cancel: () => departure.abort(),
    },
    { highWaterMark: 0 },
  );
}

function eventScanner(): (bytes: Uint8Array) => boolean {
  const decoder = new TextDecoder();
  let unfinished = "";
  let finished = false;
  return (bytes) => {
    const text = unfinished + decoder.decode(bytes, { stream: true });
    let start = 0;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n", start)) {
      const event = text.slice(start, end);
      finished ||= event === "data: [DONE]" || event.includes('"finish_reason":"');
      start = end + 2;
    }
    unfinished = text.slice(start);
    return finished;
  };
}

function parsed(body: string): { stream: boolean } | null {
  try {
    return { stream: (JSON.parse(body) as { stream?: unknown }).stream === true };
  } catch {
    return null;
  }
}

function refusal(status: number, code: string): Response {
  return Response.json({ error: { message: code, type: "invalid_request_error", param: null, code } }, { status });
}
