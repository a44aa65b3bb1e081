import { startChaos, type Chaos } from "./chaos.ts";
import type { Attempt } from "./chaos/ledger.ts";
import { chat } from "./chat.ts";
import { startGateway, type Gateway, type LogLine } from "./gateway.ts";

/**
 * The real gateway as a client library meets it: each model has an upstream and a channel of its own, which behaves as
 * given, so that what one model's fault taught the gateway does not decide the next.
 */
export async function openWorld(behaviours: Readonly<Record<string, string>>): Promise<World> {
  const all = { [sentinelModel]: "ok", ...behaviours };
  const upstreams = new Map<string, Chaos>();
  for (const [model, behaviour] of Object.entries(all)) upstreams.set(model, await startChaos({ behaviour }));
  const gateway = await startGateway({
    config: {
      keys: [
        { name: "client", key: clientKey },
        { name: "narrow", key: narrowKey, models: [sentinelModel] },
      ],
      channels: [...upstreams].map(([model, { url }]) => ({ name: model, base_url: url, api_key: "sk-of-the-upstream", models: [model] })),
    },
  });
  return new World(gateway, upstreams);
}

/** What clients of the OpenAI API meet: each name is a model whose upstream behaves so. */
export function chatBehaviours(refusals: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return {
    plain: "ok",
    paced: "fault:pace@5+tokens@2000",
    crlf: "fault:crlf",
    commented: "fault:comments",
    fields: "fault:event-id-retry-fields",
    dripped: "fault:byte-by-byte+multi-byte",
    "no-done": "fault:no-done",
    "no-blank": "fault:no-final-blank-line",
    "usage-on-finish": "fault:usage-on-finish-chunk",
    length: "fault:finish@length",
    "broken-midway": "fault:rst-after@3",
    "ended-midway": "fault:end-after@3",
    "error-midway": "fault:sse-error-after@3",
    // Each twice: what one call taught the gateway about an upstream must not decide what the next one meets.
    ...Object.fromEntries(
      Object.entries(refusals).flatMap(([name, behaviour]) => [
        [name, behaviour],
        [`${name}-streamed`, behaviour],
      ]),
    ),
  };
}

export class World implements AsyncDisposable {
  readonly key = clientKey;
  /** May use no model but the sentinel. */
  readonly narrowKey = narrowKey;

  constructor(
    readonly gateway: Gateway,
    readonly upstreams: ReadonlyMap<string, Chaos>,
  ) {}

  /** What a client library calls its base URL. */
  get baseURL(): string {
    return `${this.gateway.url}/v1`;
  }

  upstream(model: string): Chaos {
    const upstream = this.upstreams.get(model);
    if (upstream === undefined) throw new Error(`no model is called ${model}`);
    return upstream;
  }

  /** The newest request that the upstream of a model has received. */
  lastAttempt(model: string): Attempt {
    const attempt = this.upstream(model).ledger.chats.at(-1);
    if (attempt === undefined) throw new Error(`the upstream of ${model} was never asked`);
    return attempt;
  }

  /** The text that the upstream of a model sent last. */
  sent(model: string): string {
    return this.lastAttempt(model).tokensSent.join("");
  }

  /** The body that the upstream of a model received last. */
  received(model: string): Readonly<Record<string, unknown>> {
    return JSON.parse(new TextDecoder().decode(this.lastAttempt(model).body)) as Record<string, unknown>;
  }

  /** The access lines of every call made meanwhile. */
  async linesDuring(act: () => Promise<unknown>): Promise<readonly LogLine[]> {
    const from = await this.sentinel();
    await act();
    return this.linesBetween(from, await this.sentinel());
  }

  /** A call whose line frames those of others: lines are logged in order. Gives its id, once it is logged. */
  async sentinel(): Promise<string> {
    const { requestId } = await chat(this.gateway, { model: sentinelModel }, { key: clientKey });
    await this.gateway.waitForLog((line) => line["event"] === "call" && line["id"] === requestId);
    return requestId ?? "";
  }

  linesBetween(from: string, to: string): readonly LogLine[] {
    const lines = this.gateway.accessLines();
    const at = (id: string): number => lines.findIndex((line) => line["id"] === id);
    return lines.slice(at(from) + 1, at(to));
  }

  async close(): Promise<void> {
    await this.gateway.kill();
    await Promise.all([...this.upstreams.values()].map((upstream) => upstream.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export const sentinelModel = "sentinel";

const clientKey = "sk-client-of-these-tests";
const narrowKey = "sk-narrow-client-of-these-tests";
