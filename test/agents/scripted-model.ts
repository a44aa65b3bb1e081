import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { chatWire } from "./wires/chat.ts";
import { thought, type Json, type ScriptedRequest, type ScriptedTurn, type ScriptedWire } from "./wires/wire.ts";

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

/**
 * An upstream that plays a model that works with tools, in one of the APIs that upstreams speak. How far it is stands in the conversation (each
 * result of a tool is one step), so any number of these can take turns in one task.
 */
export class ScriptedModel implements AsyncDisposable {
  /** What it was asked for the task, in order. */
  readonly requests: ScriptedRequest[] = [];
  /** How many of its answers it broke off. */
  broken = 0;
  readonly #script: Script;
  readonly #server: Server;
  readonly #fate: Fate;
  readonly #wire: ScriptedWire;

  private constructor(script: Script, fate: Fate, wire: ScriptedWire) {
    this.#script = script;
    this.#fate = fate;
    this.#wire = wire;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        response.writeHead(500, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { message: String(error) } }));
      });
    });
  }

  static async start(script: Script, fate: Fate = "lives", wire: ScriptedWire = chatWire): Promise<ScriptedModel> {
    const model = new ScriptedModel(script, fate, wire);
    await new Promise<void>((resolve) => model.#server.listen(0, "127.0.0.1", resolve));
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** The settings of a channel to it. */
  get channel(): Json {
    return { base_url: this.url, ...this.#wire.channel };
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
    const body = JSON.parse(await text(request)) as Json;
    const { marker, steps, finalText } = this.#script;
    const asked = this.#wire.read(body, request.url ?? "");
    if (!JSON.stringify(body).includes(marker) || asked.tools.length === 0) return this.#send(response, asked, says("Done."));
    this.requests.push(asked);
    const step = asked.results.length;
    const isLast = step >= steps.length;
    const call = isLast ? null : steps[step]!(asked.tools);
    if (!isLast && call === null) throw new Error(`no tool for step ${step} among ${asked.tools.map(({ name }) => name).join(", ")}`);
    const id = `call_${step}_${this.requests.length}`;
    const turn = call === null ? says(finalText) : { thought, text: "Next step. ", call: { id, ...call } };
    if (this.#fate === "breaks off before it says anything") {
      this.broken += 1;
      await this.#send(response, asked, turn, 0);
      return;
    }
    const dies = step === 1 && this.#fate === "dies while it calls the second tool";
    await this.#send(response, asked, turn, dies ? 0.7 : 1);
    if (!dies) return;
    this.broken += 1;
    this.#close();
  }

  /** `share`: how much of a stream is sent before the connection breaks. */
  async #send(response: ServerResponse, asked: ScriptedRequest, turn: ScriptedTurn, share = 1): Promise<void> {
    if (!asked.stream) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(this.#wire.whole(turn, asked)));
      return;
    }
    response.writeHead(200, { "content-type": this.#wire.contentType });
    const events = this.#wire.events(turn, asked);
    const last = share === 1 ? events.length : Math.min(events.length - 1, Math.max(1, Math.floor(events.length * share)));
    for (const event of events.slice(0, last)) await new Promise<void>((resolve) => void response.write(event, () => resolve()));
    if (last < events.length) response.destroy();
    else response.end();
  }
}

function says(value: string): ScriptedTurn {
  return { thought: "", text: value, call: null };
}

/** What becomes of an upstream in the course of a task. */
export type Fate = "lives" | "breaks off before it says anything" | "dies while it calls the second tool";
