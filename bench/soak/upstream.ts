import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { mp3Frames } from "../recording.ts";

/** What one request to the upstream was about, and how far its answer got. */
export interface Served {
  readonly call: number;
  readonly manner: Manner;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** The whole answer was written. */
  whole: boolean;
}

export type Manner = "ok" | "cut" | "refuse" | "stall" | "error";

/** Clients put this into what they send, and the upstream finds it there whatever the gateway made of the request. */
export function markOf(call: number, manner: Manner, tokens: number): string {
  return `#soak:${call}:${manner}:${tokens}#`;
}

/** An upstream that does what each request asks for, and remembers what it served. Only its second port misbehaves. */
export class ScriptedUpstream {
  readonly served: Served[] = [];
  /** Requests that are not answered yet. */
  open = 0;
  private readonly servers: readonly Server[];

  private constructor() {
    this.servers = [false, true].map((faulty) => createServer((request, response) => void this.serve(request, response, faulty)));
  }

  static async start(): Promise<ScriptedUpstream> {
    const upstream = new ScriptedUpstream();
    for (const server of upstream.servers) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return upstream;
  }

  get ports(): readonly number[] {
    return this.servers.map((server) => (server.address() as AddressInfo).port);
  }

  stop(): void {
    for (const server of this.servers) {
      server.closeAllConnections();
      server.close();
    }
  }

  private async serve(request: IncomingMessage, response: ServerResponse, faulty: boolean): Promise<void> {
    this.open += 1;
    response.on("close", () => (this.open -= 1));
    // Whoever leaves is no failure of the upstream.
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    try {
      const body = await textOf(request);
      const [, call, asked, count] = /#soak:(\d+):(\w+):(\d+)#/.exec(body) ?? [];
      if (call === undefined || count === undefined) return end(response, 400, { error: { message: "no mark of a call" } });
      const manner = faulty ? (asked as Manner) : "ok";
      const path = request.url ?? "";
      const tokens = path.endsWith("/completions") ? Number(count) : 0;
      const prompt = path.includes("/audio/") ? 0 : 5 + (Number(call) % 50);
      const served: Served = { call: Number(call), manner, promptTokens: prompt, completionTokens: tokens, whole: false };
      this.served.push(served);
      response.on("finish", () => (served.whole = manner === "ok"));
      if (manner === "refuse") return end(response, 429, problem("rate_limit_exceeded"), { "retry-after": "1" });
      if (manner === "error") return end(response, 500, problem("server_error"));
      if (manner === "stall") return;
      if (path.endsWith("/embeddings")) return end(response, 200, embeddingOf(prompt));
      if (path.endsWith("/transcriptions")) return end(response, 200, { text: "So it goes on and on." });
      if (path.endsWith("/speech")) return await speak(response);
      if (!body.includes('"stream":true')) return end(response, 200, completionOf(prompt, tokens));
      await stream(response, served, body.includes('"include_usage":true'));
    } catch {
      response.destroy();
    }
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  // Of an upload, the mark stands before the file; the rest is only counted as received.
  for await (const bytes of request) if (text.length < textMax) text += (bytes as Buffer).toString("latin1");
  return text;
}

const textMax = 64_000;

function end(response: ServerResponse, status: number, body: object, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

function problem(code: string): object {
  return { error: { message: "Not now.", type: "server_error", param: null, code } };
}

function usageOf(prompt: number, completion: number): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

function completionOf(prompt: number, completion: number): object {
  const message = { role: "assistant", content: " word".repeat(completion), refusal: null };
  return {
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: usageOf(prompt, completion),
  };
}

function embeddingOf(prompt: number): object {
  const embedding = Array.from({ length: 64 }, (_, at) => at / 64);
  return {
    object: "list",
    model: "soak",
    data: [{ object: "embedding", index: 0, embedding }],
    usage: { prompt_tokens: prompt, total_tokens: prompt },
  };
}

async function stream(response: ServerResponse, { manner, promptTokens, completionTokens }: Served, withUsage: boolean): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (fields: object): boolean =>
    response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...fields })}\n\n`);
  send({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] });
  for (let token = 0; token < completionTokens; token += 1) {
    if (response.closed) return;
    if (manner === "cut" && token === completionTokens >> 1) return void response.destroy();
    send({ choices: [{ index: 0, delta: { content: " word" }, finish_reason: null }] });
    await Bun.sleep(tokenMs);
  }
  send({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  if (withUsage) send({ choices: [], usage: usageOf(promptTokens, completionTokens) });
  response.end("data: [DONE]\n\n");
}

async function speak(response: ServerResponse): Promise<void> {
  response.writeHead(200, { "content-type": "audio/mpeg" });
  for (let piece = 0; piece < speechPieces; piece += 1) {
    if (response.closed) return;
    response.write(speechPiece);
    await Bun.sleep(tokenMs);
  }
  response.end();
}

const head = { id: "chatcmpl-soak", created: 1_700_000_000, model: "soak" } as const;
const tokenMs = 10;
const speechPieces = 10;
const speechPiece = mp3Frames(8);
