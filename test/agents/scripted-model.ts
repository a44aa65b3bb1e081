import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A tool as a program declares it, once the gateway has translated it to a function. */
export interface DeclaredTool {
  readonly name: string;
  readonly description: string;
  readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export interface ToolCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** Which tool the model calls in one turn, chosen from those that the program declares; null if none of them will do. */
export type Step = (tools: readonly DeclaredTool[]) => ToolCall | null;

export interface Script {
  /** Stands in the prompt of the task. A request without it is an aside of the program, such as the title of the session. */
  readonly marker: string;
  readonly steps: readonly Step[];
  readonly finalText: string;
}

interface ChatMessage {
  readonly role: string;
  readonly content: unknown;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
  readonly reasoning_content?: string;
}

interface ChatBody {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly stream?: boolean;
  readonly tools?: readonly {
    readonly function: { readonly name: string; readonly description?: string; readonly parameters?: Parameters };
  }[];
}

interface Parameters {
  readonly properties?: DeclaredTool["properties"];
}

/**
 * An upstream that speaks chat completions and plays a model that works with tools. How far it is stands in the conversation (each
 * result of a tool is one step), so any number of these can take turns in one task.
 */
export class ScriptedModel implements AsyncDisposable {
  /** What it was asked for the task, in order. */
  readonly requests: ChatBody[] = [];
  /** How many of its answers it broke off. */
  broken = 0;
  readonly #script: Script;
  readonly #server: Server;
  readonly #fate: Fate;

  private constructor(script: Script, fate: Fate) {
    this.#script = script;
    this.#fate = fate;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        response.writeHead(500, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { message: String(error) } }));
      });
    });
  }

  static async start(script: Script, fate: Fate = "lives"): Promise<ScriptedModel> {
    const model = new ScriptedModel(script, fate);
    await new Promise<void>((resolve) => model.#server.listen(0, "127.0.0.1", resolve));
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
    await Promise.resolve();
  }

  #close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = JSON.parse(await text(request)) as ChatBody;
    const { marker, steps, finalText } = this.#script;
    if (!JSON.stringify(body.messages).includes(marker) || body.tools === undefined)
      return send(response, body, textDeltas("Done."), "stop");
    const mistake = mistakeIn(body);
    if (mistake !== null) throw new Error(mistake);
    this.requests.push(body);
    const step = body.messages.filter(({ role }) => role === "tool").length;
    const isLast = step >= steps.length;
    const call = isLast ? null : steps[step]!(toolsIn(body));
    if (!isLast && call === null)
      throw new Error(
        `no tool for step ${step} among ${toolsIn(body)
          .map(({ name }) => name)
          .join(", ")}`,
      );
    const deltas = call === null ? textDeltas(finalText) : callDeltas(call, `call_${step}_${this.requests.length}`);
    const reason = call === null ? "stop" : "tool_calls";
    if (this.#fate === "breaks off before it says anything") {
      this.broken += 1;
      await send(response, body, deltas, reason, 0);
      return;
    }
    const dies = step === 1 && this.#fate === "dies while it calls the second tool";
    await send(response, body, deltas, reason, dies ? Math.ceil(deltas.length / 2) : Infinity);
    if (!dies) return;
    this.broken += 1;
    this.#close();
  }
}

/** What becomes of an upstream in the course of a task. */
export type Fate = "lives" | "breaks off before it says anything" | "dies while it calls the second tool";

/** What providers refuse, other than the one that the API comes from: other roles, and calls without a result or the other way round. */
function mistakeIn({ messages }: ChatBody): string | null {
  const open = new Set<string>();
  for (const { role, tool_calls = [], tool_call_id = "" } of messages) {
    if (!["system", "user", "assistant", "tool"].includes(role)) return `the role ${role} is not known`;
    if (role === "tool" && !open.delete(tool_call_id)) return `nothing was called as ${tool_call_id}`;
    if (role !== "tool" && open.size > 0) return `no results for ${[...open].join(", ")}`;
    for (const { id } of tool_calls) open.add(id);
  }
  return open.size === 0 ? null : `no results for ${[...open].join(", ")}`;
}

function toolsIn({ tools = [] }: ChatBody): readonly DeclaredTool[] {
  return tools.map(({ function: { name, description = "", parameters } }) => ({
    name,
    description,
    properties: parameters?.properties ?? {},
  }));
}

type Delta = Readonly<Record<string, unknown>>;

function textDeltas(answer: string): readonly Delta[] {
  return answer.split(/(?<= )/).map((content) => ({ content }));
}

/** What the model thinks before each call. */
export const thought = "I have a tool for this.";

/** The arguments arrive in pieces, as from a real model. */
function callDeltas({ name, arguments: args }: ToolCall, id: string): readonly Delta[] {
  const pieces = JSON.stringify(args).match(/[^]{1,24}/g) ?? [];
  const toolCall = (call: Delta): Delta => ({ tool_calls: [{ index: 0, ...call }] });
  return [
    ...thought.split(/(?<= )/).map((reasoning) => ({ reasoning_content: reasoning })),
    { content: "Next step. " },
    toolCall({ id, type: "function", function: { name, arguments: "" } }),
    ...pieces.map((piece) => toolCall({ function: { arguments: piece } })),
  ];
}

async function send(
  response: ServerResponse,
  { model, stream }: ChatBody,
  deltas: readonly Delta[],
  reason: string,
  deltasMax = Infinity,
): Promise<void> {
  const head = { id: "chatcmpl-scripted", created: 1_700_000_000, model };
  const usage = { prompt_tokens: 1_000, completion_tokens: deltas.length, total_tokens: 1_000 + deltas.length };
  if (stream !== true) {
    const choices = [{ index: 0, message: { role: "assistant", ...wholeOf(deltas) }, finish_reason: reason }];
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...head, object: "chat.completion", choices, usage }));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const chunk = (choices: readonly unknown[], more: Delta = {}): Promise<void> =>
    new Promise((resolve) => {
      const event = { ...head, object: "chat.completion.chunk", choices, ...more };
      response.write(`data: ${JSON.stringify(event)}\n\n`, () => resolve());
    });
  await chunk([{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }]);
  for (const [index, delta] of deltas.entries()) {
    if (index === deltasMax) return void response.destroy();
    await chunk([{ index: 0, delta, finish_reason: null }]);
  }
  await chunk([{ index: 0, delta: {}, finish_reason: reason }]);
  await chunk([], { usage });
  response.end("data: [DONE]\n\n");
}

function wholeOf(deltas: readonly Delta[]): Delta {
  const content = deltas.map((delta) => (typeof delta["content"] === "string" ? delta["content"] : "")).join("");
  return { content };
}
