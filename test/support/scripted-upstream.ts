/** An upstream that answers as a test says, for operations that `chaos.ts` does not know. */
export async function startScripted(usual: Script): Promise<Scripted> {
  return new Scripted(usual);
}

export type Script = (request: ScriptedRequest) => Response | Promise<Response>;

export interface ScriptedRequest {
  readonly path: string;
  readonly headers: Headers;
  readonly text: string;
  /** Empty where it is no JSON object. */
  readonly body: Readonly<Record<string, unknown>>;
}

export class Scripted implements AsyncDisposable {
  /** Every request, in order. */
  readonly requests: ScriptedRequest[] = [];
  readonly #queue: Script[] = [];
  readonly #server: Bun.Server<undefined>;

  constructor(usual: Script) {
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: async (asked) => {
        const text = await asked.text();
        const { pathname, search } = new URL(asked.url);
        const request = { path: pathname + search, headers: asked.headers, text, body: objectIn(text) };
        this.requests.push(request);
        return (this.#queue.shift() ?? usual)(request);
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/v1`;
  }

  get bodies(): readonly Readonly<Record<string, unknown>>[] {
    return this.requests.map(({ body }) => body);
  }

  /** The next request is answered in this way. */
  next(script: Script): void {
    this.#queue.push(script);
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A streamed chat that says "begun", and " and ended" when it is told to: until then it stays open. */
export class HeldStream {
  /** How many of them were left before their end. */
  cancelled = 0;
  /** Ends the last one. */
  finish: () => void = () => {};

  answer(): Response {
    const stream = new ReadableStream<string>({
      start: (controller) => {
        controller.enqueue(chatChunk("begun", null));
        this.finish = () => {
          controller.enqueue(`${chatChunk(" and ended", "stop")}data: [DONE]\n\n`);
          controller.close();
        };
      },
      cancel: () => {
        this.cancelled += 1;
      },
    });
    return new Response(stream, { headers: { "content-type": "text/event-stream" } });
  }
}

function chatChunk(content: string, reason: string | null): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: reason }] })}\n\n`;
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
