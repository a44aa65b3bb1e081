import { afterAll, beforeAll, test } from "bun:test";
import { startChaos, type Chaos, type ChaosOptions } from "./chaos.ts";
import type { Attempt } from "./chaos/ledger.ts";
import { header } from "./chaos/request.ts";
import { openChat, type ChatCall, type ChatOptions, type ChatReply } from "./chat.ts";
import { startGateway, type Gateway, type GatewayOptions, type LogLine } from "./gateway.ts";
import { checkInvariants, oneAccessLinePerCall, takeBaseline, type Scene, type SceneChannel } from "./invariants.ts";
import { drainStarted, price } from "./receipts.ts";
import { timersOf } from "./stated-time.ts";

/**
 * The real gateway in front of many groups of upstreams, a before b. Each fault is played on a group of its own, because a
 * gateway remembers: what one fault taught it must not decide the next. After each, the universal invariants are checked.
 * Groups are declared first, by `row` or `group`; the gateway starts before the first test of the file.
 */
export class Stage {
  readonly #options: StageOptions;
  readonly #groups: Group[] = [];
  readonly #fallback: Promise<Chaos>[] = [];
  #gateway: Gateway | null = null;

  constructor(options: StageOptions = {}) {
    this.#options = options;
    beforeAll(() => this.#open(), 60_000);
    afterAll(() => this.#close(), 30_000);
  }

  get gateway(): Gateway {
    if (this.#gateway === null) throw new Error("the stage opens before the first test, not while tests are declared");
    return this.#gateway;
  }

  /** A test that plays one fault on upstreams of its own, and holds the invariants over everything that was asked. */
  row(promise: string, play: (row: Row) => Promise<void>, options: RowOptions = {}): void {
    const group = this.group(options);
    test(promise, () => this.play(group, play, demandsOf(options)), rowMsMax);
  }

  /** The same in several variants at once, each on upstreams of its own: most of a fault is waiting. */
  rows<V extends RowVariant>(
    promise: string,
    variants: readonly V[],
    play: (row: Row, variant: V) => Promise<void>,
    options: RowOptions = {},
  ): void {
    const groups = variants.map((variant) => this.group({ ...options, ...variant.group }));
    test(
      promise,
      () => {
        const playOne = (row: Row, index: number) => {
          const variant = variants[index]!;
          return play(row, variant).catch((error: Error) => {
            error.message = `${variant.label}: ${error.message}`;
            throw error;
          });
        };
        return this.playAll(groups, playOne, demandsOf(options));
      },
      rowMsMax,
    );
  }

  /** Upstreams and channels for `play`. */
  group(options: GroupOptions = {}): Group {
    const group: Group = { number: this.#groups.length, options, upstreams: [], url: null };
    this.#groups.push(group);
    return group;
  }

  async play(group: Group, play: (row: Row) => Promise<void>, demands: Partial<Scene> = {}): Promise<void> {
    await this.playAll([group], play, demands);
  }

  /** Plays on several groups at the same time, and checks the invariants over all of them. */
  async playAll(groups: readonly Group[], play: (row: Row, index: number) => Promise<void>, demands: Partial<Scene> = {}): Promise<void> {
    const { gateway } = this;
    const upstreams = [...new Set(groups.flatMap((group) => group.upstreams))];
    const baseline = await takeBaseline(gateway, upstreams);
    const rows = groups.map((group) => new Row(gateway, group));
    const played = await Promise.allSettled(rows.map(play));
    const replies = rows.flatMap((row) => row.replies);
    const calls = rows.reduce((sum, row) => sum + row.calls, 0);
    const channels = new Map(groups.flatMap(sceneChannelsOf));
    const scene = { gateway, upstreams, replies, calls, baseline, secrets, channels, isPriced: true, ...demands };
    for (const one of played) {
      if (one.status === "fulfilled") continue;
      // What this one still has to say must not be held against the next.
      await oneAccessLinePerCall(scene).catch(() => {});
      throw one.reason;
    }
    await checkInvariants(scene);
    for (const group of groups) checkCredentials(group);
  }

  async #open(): Promise<void> {
    const warm = this.group();
    await Promise.all(this.#groups.map((group) => this.#raise(group)));
    const { config = {}, env } = this.#options;
    const given = typeof env === "function" ? await env() : env;
    this.#gateway = await startGateway({
      config: {
        keys: [{ name: "app", key: clientKey }],
        channels: this.#groups.flatMap(channelsOf),
        prices: [{ model: "*", ...price }],
        ...config,
        // What one fault does is to be seen, not what makes up for it: that has tests of its own.
        routing: { hedge_after: "off", rescue: "error", ...(config["routing"] as object | undefined) },
      },
      readyWithinMs: 20_000,
      ...(given === undefined ? {} : { env: given }),
    });
    // What a process opens once, at its first call, would otherwise look like a leak of the first fault.
    const row = new Row(this.#gateway, warm);
    for (const stream of [false, true]) {
      const reply = await row.ask({ stream });
      await row.line(reply);
      await drainStarted(this.#gateway.directory, reply.requestId);
    }
  }

  async #raise(group: Group): Promise<void> {
    const { size = 2, upstream = {}, sharesFallback = false, url = null } = group.options;
    const special = typeof upstream === "function" ? await upstream() : upstream;
    const raised = Array.from({ length: size }, (_, index) => {
      const name = `${letters[index]}${group.number}x`;
      if (index === 0) return startChaos({ name, ...special });
      if (!sharesFallback) return startChaos({ name });
      return (this.#fallback[index] ??= startChaos({ name }));
    });
    group.upstreams = await Promise.all(raised);
    group.url = typeof url === "function" ? await url() : url;
  }

  async #close(): Promise<void> {
    await this.#gateway?.kill();
    const upstreams = new Set(this.#groups.flatMap((group) => group.upstreams));
    await Promise.all([...upstreams].map((upstream) => upstream.close()));
  }
}

export interface StageOptions {
  /** More of the configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly env?: GatewayOptions["env"] | (() => Promise<GatewayOptions["env"]>);
}

export interface GroupOptions {
  /** How many upstreams, a, b, c. Default 2. */
  readonly size?: 1 | 2 | 3;
  /** All in one tier; else each is the fallback of the one before it. */
  readonly equals?: boolean;
  /** What the first upstream is, and where it is said to be when that is not the truth. */
  readonly upstream?: ChaosOptions | (() => Promise<ChaosOptions>);
  readonly url?: string | (() => string | Promise<string>);
  /** Settings of the first channel, and of all of them. */
  readonly channel?: Readonly<Record<string, unknown>>;
  readonly channels?: Readonly<Record<string, unknown>>;
  /** The upstreams after the first may be shared with other groups: for many groups of which only the first is at fault. */
  readonly sharesFallback?: boolean;
}

/** With demands that differ from the usual ones. */
export type RowOptions = GroupOptions & Partial<Pick<Scene, "attemptsMax" | "oneAttemptSpeaks" | "graceMs">>;

/**
 * Longer than all waits in a row together, which are several times as patient on a slow machine: whatever does not come is told by the
 * wait for it. A row that is cut off tells nothing, and Bun ends the gateway of the others with it.
 */
const rowMsMax = 240_000;

function demandsOf({ attemptsMax = 3, oneAttemptSpeaks = true, graceMs = 1_000 }: RowOptions): Partial<Scene> {
  return { attemptsMax, oneAttemptSpeaks, graceMs };
}

export interface RowVariant {
  readonly label: string;
  readonly group?: GroupOptions;
}

/** One fault: its upstreams, and calls through the gateway to them. */
export class Row {
  readonly gateway: Gateway;
  readonly replies: ChatReply[] = [];
  calls = 0;
  readonly #group: Group;

  constructor(gateway: Gateway, group: Group) {
    this.gateway = gateway;
    this.#group = group;
  }

  get a(): Chaos {
    return this.#upstream(0);
  }

  get b(): Chaos {
    return this.#upstream(1);
  }

  get upstreams(): readonly Chaos[] {
    return this.#group.upstreams;
  }

  /** What a client of its own asks for to reach all upstreams in order. */
  get model(): string {
    return model(this.#group);
  }

  /** The name of a channel. */
  channel(letter: Letter): string {
    return channelName(this.#group, letters.indexOf(letter));
  }

  /** One call to all upstreams in order, or to the first `alone`. */
  async ask(options: AskOptions = {}): Promise<ChatReply> {
    const call = await this.open(options);
    return call.reply;
  }

  /** The same, returning while the answer is still on its way. */
  async open({ alone = false, body, ...options }: AskOptions = {}): Promise<ChatCall> {
    this.calls += 1;
    const messages = [{ role: "user", content: `Repeat nothing of ${promptCanary}.` }];
    const asked = { model: alone ? aloneModel(this.#group) : model(this.#group), messages, ...body };
    const call = await openChat(this.gateway, asked, { key: clientKey, ...options });
    const reply = call.reply.then((ended) => {
      this.replies.push(ended);
      return ended;
    });
    return { ...call, reply };
  }

  /** The access line of a call. */
  line(reply: ChatReply): Promise<LogLine> {
    return this.gateway.waitForLog((line) => line["event"] === "call" && line["id"] === reply.requestId);
  }

  /** Which upstreams a call reached, in order, such as `aab`. */
  path(reply: ChatReply): string {
    const attempts = this.#group.upstreams.flatMap(({ ledger }, index) =>
      ledger.ofCall(reply.call ?? "").map(({ at }) => ({ at, letter: letters[index] })),
    );
    return attempts
      .toSorted((one, other) => one.at - other.at)
      .map(({ letter }) => letter)
      .join("");
  }

  /** The text that an upstream's last attempt at this call has sent. */
  sent(reply: ChatReply, upstream: Chaos): string {
    return (
      upstream.ledger
        .ofCall(reply.call ?? "")
        .at(-1)
        ?.tokensSent.join("") ?? ""
    );
  }

  /** What the gateway has said about staying away from the first channel. */
  coolings(): readonly LogLine[] {
    const channel = this.channel("a");
    return this.gateway.logs.filter((line) => line["event"] === "cooling" && line["channel"] === channel);
  }

  #upstream(index: number): Chaos {
    const upstream = this.#group.upstreams[index];
    if (upstream === undefined) throw new Error(`this row has no upstream ${letters[index]}`);
    return upstream;
  }
}

export interface AskOptions extends ChatOptions {
  /** Without the second upstream. */
  readonly alone?: boolean;
  /** More fields of the request. */
  readonly body?: Readonly<Record<string, unknown>>;
}

/** An answer that is whole before its first byte is sent, and one that is relayed as it comes. */
export const kinds = [
  { label: "whole", stream: false },
  { label: "stream", stream: true },
] as const;

/** The same with a fallback, and without. */
export const variants = kinds.flatMap((one) => [
  { ...one, alone: false },
  { label: `${one.label}, alone`, stream: one.stream, alone: true },
]);

export interface Group {
  readonly number: number;
  readonly options: GroupOptions;
  upstreams: readonly Chaos[];
  url: string | null;
}

export const clientKey = "canary-client-5f0c1d7e9b2a4863";
export const promptCanary = "canary-prompt-3b8e61f0";

const letters = ["a", "b", "c"] as const;
type Letter = (typeof letters)[number];
const upstreamKeys = ["canary-upstream-84e1c06f2d", "canary-upstream-19d7f35ac4", "canary-upstream-6a02b9ee71"] as const;

/** None of these may stand in an answer or in the log. */
export const secrets: readonly string[] = [clientKey, promptCanary, ...upstreamKeys];

function channelsOf(group: Group): object[] {
  const { equals = false, channel = {}, channels = {} } = group.options;
  return group.upstreams.map((upstream, index) => ({
    name: channelName(group, index),
    base_url: (index === 0 ? group.url : null) ?? upstream.url,
    api_key: upstreamKeys[index],
    models: index === 0 ? [model(group), aloneModel(group)] : [model(group)],
    tier: equals ? 1 : index + 1,
    ...channels,
    ...(index === 0 ? channel : {}),
  }));
}

function sceneChannelsOf(group: Group): (readonly [string, SceneChannel])[] {
  const { channel = {}, channels = {} } = group.options;
  return group.upstreams.map((upstream, index) => {
    const timers = timersOf({ ...channels, ...(index === 0 ? channel : {}) });
    return [channelName(group, index), { upstream, timers }] as const;
  });
}

function channelName({ number }: Group, index: number): string {
  return `${letters[index]}${number}`;
}

function model({ number }: Group): string {
  return `all-${number}`;
}

function aloneModel({ number }: Group): string {
  return `alone-${number}`;
}

/** Each upstream is shown its own key, and the client's is shown to nobody. */
function checkCredentials({ upstreams }: Group): void {
  for (const [index, { ledger }] of upstreams.entries()) {
    const wrong = ledger.chats.filter((attempt) => isWrong(attempt, upstreamKeys[index] ?? ""));
    const shown = wrong.map((attempt) => `${attempt.id} for ${attempt.model} with ${header(attempt, "authorization")}`);
    if (wrong.length > 0) throw new Error(`attempts with a wrong credential: ${shown.join(", ")}`);
  }
}

function isWrong(attempt: Attempt, key: string): boolean {
  return header(attempt, "authorization") !== `Bearer ${key}` || Buffer.from(attempt.head).includes(clientKey);
}
