import { startChaos, type Chaos } from "./chaos.ts";
import { chat, openChat, type ChatCall, type ChatOptions, type ChatReply } from "./chat.ts";
import { startGateway, type Gateway, type GatewayOptions, type LogLine } from "./gateway.ts";
import { checkInvariants, takeBaseline, type Baseline, type Scene, type SceneChannel } from "./invariants.ts";
import { drainStarted, price } from "./receipts.ts";
import { timersOf } from "./stated-time.ts";

/**
 * A gateway of the test's own with one chaos upstream behind each channel. A channel takes any model unless its settings
 * say otherwise, so that tests that share a rig can each have a model, and with it a deployment and its health.
 */
export async function setUp<Name extends string>(
  channels: Readonly<Record<Name, ChannelSettings>>,
  config: Readonly<Record<string, unknown>> = {},
  options: Omit<GatewayOptions, "config"> = {},
): Promise<Rig<Name>> {
  const names = Object.keys(channels) as Name[];
  const upstreams = await Promise.all(names.map((name) => startChaos({ name })));
  const upstream = Object.fromEntries(names.map((name, at) => [name, upstreams[at]])) as Record<Name, Chaos>;
  await using rehearsal = await startChaos();
  const complete = {
    keys: [{ name: "tester", key: clientKey }],
    channels: [
      ...names.map((name) => channelOf(name, upstream[name], channels[name])),
      { name: "rehearsal", base_url: rehearsal.url, models: [rehearsed] },
    ],
    prices: [{ model: "*", ...price }],
    ...config,
    // As on a stage: a test that wants to see what makes up for a fault says so.
    routing: { hedge_after: "off", rescue: "error", ...(config["routing"] as object | undefined) },
  };
  const gateway = await startGateway({ ...options, config: complete });
  // The first call of a process opens descriptors that it keeps; they must not look like a leak.
  const first = await chat(gateway, { model: rehearsed }, { key: clientKey });
  await gateway.waitForLog((line) => line["id"] === first.requestId);
  await drainStarted(gateway.directory, first.requestId);
  return new Rig(gateway, upstream, complete, await takeBaseline(gateway, upstreams));
}

/** What is added to a channel's name, address and key; a function is given the upstream to prepare it. */
export type ChannelSettings = Readonly<Record<string, unknown>> | ((upstream: Chaos) => Readonly<Record<string, unknown>>);

export const clientKey = "sk-client-canary-0123456789abcdef";

export function upstreamKey(channel: string): string {
  return `sk-upstream-canary-${channel}-0123456789`;
}

export class Rig<Name extends string> implements AsyncDisposable {
  readonly gateway: Gateway;
  readonly upstream: Readonly<Record<Name, Chaos>>;
  /** As the gateway was started with it, for a test that changes some of it. */
  readonly config: RigConfig;
  #baseline: Baseline;
  #calls: ChatCall[] = [];

  constructor(gateway: Gateway, upstream: Readonly<Record<Name, Chaos>>, config: RigConfig, baseline: Baseline) {
    this.gateway = gateway;
    this.upstream = upstream;
    this.config = config;
    this.#baseline = baseline;
  }

  get upstreams(): readonly Chaos[] {
    return Object.values<Chaos>(this.upstream);
  }

  /** A call whose answer `check` will judge as well. */
  async chat(body: Record<string, unknown> | string = {}, options: ChatOptions = {}): Promise<ChatReply> {
    return (await this.open(body, options)).reply;
  }

  async open(body: Record<string, unknown> | string = {}, options: ChatOptions = {}): Promise<ChatCall> {
    const call = await openChat(this.gateway, body, { key: clientKey, ...options });
    this.#calls.push(call);
    return call;
  }

  /** The names of the upstreams a call was tried on, in order. */
  path({ call }: { readonly call: string | null }): readonly string[] {
    const attempts = this.upstreams.flatMap(({ name, ledger }) =>
      ledger.chats.filter((attempt) => call !== null && attempt.call === call).map(({ at }) => ({ name, at })),
    );
    return attempts.toSorted((one, other) => one.at - other.at).map(({ name }) => name);
  }

  async accessLine(requestId: string | null): Promise<LogLine> {
    return this.gateway.waitForLog((line) => line["event"] === "call" && line["id"] === requestId);
  }

  /** Checks the invariants over every call since the last check, and begins anew. */
  async check(particulars: Partial<Scene> = {}): Promise<void> {
    const replies = await Promise.all(this.#calls.map((call) => call.reply));
    const scene: Scene = {
      gateway: this.gateway,
      upstreams: this.upstreams,
      replies,
      baseline: this.#baseline,
      channels: new Map(this.config.channels.flatMap((settings) => this.#sceneChannel(settings))),
      isPriced: true,
      ...particulars,
      secrets: [clientKey, ...this.upstreams.map(({ name }) => upstreamKey(name)), promptCanary, ...(particulars.secrets ?? [])],
    };
    this.#calls = [];
    try {
      await checkInvariants(scene);
    } finally {
      this.#baseline = await takeBaseline(this.gateway, this.upstreams);
    }
  }

  #sceneChannel(settings: Readonly<Record<string, unknown>>): (readonly [string, SceneChannel])[] {
    const name = String(settings["name"]);
    return name in this.upstream ? [[name, { upstream: this.upstream[name as Name], timers: timersOf(settings) }]] : [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway.kill();
    for (const upstream of this.upstreams) await upstream.close();
  }
}

export type RigConfig = Readonly<Record<string, unknown>> & {
  readonly channels: readonly Readonly<Record<string, unknown>>[];
};

const rehearsed = "rehearsal";

/** The prompt of every chat that brings none of its own: it must not be seen in any output. */
const promptCanary = "Say something.";

function channelOf(name: string, upstream: Chaos, settings: ChannelSettings): Record<string, unknown> {
  const given = typeof settings === "function" ? settings(upstream) : settings;
  const key = "api_keys" in given ? {} : { api_key: upstreamKey(name) };
  return { name, base_url: upstream.url, models: "*", ...key, ...given };
}
