import type { Candidate } from "../channels/channel.ts";
import type { ChannelSetting, Settings } from "../config/settings.ts";
import { readRuntimeChannel } from "../config/runtime-channel.ts";
import { buildSnapshot } from "../config/snapshot.ts";
import { dialects } from "../dialects/index.ts";
import { Ledger } from "../gateway/admission/ledger.ts";
import type { Limiter } from "../gateway/admission/limiter.ts";
import { dispatch } from "../gateway/dispatch.ts";
import { Gateway } from "../gateway/gateway.ts";
import type { Ports } from "../gateway/ports.ts";
import type { ReceiptBook } from "../gateway/settlement/record.ts";
import { UpstreamState, type OpenBreaker } from "../gateway/upstream-state/upstream-state.ts";
import { AuthFailures } from "../http/auth-failures.ts";
import { KeyRing } from "../http/authenticate.ts";
import type { ListenerServices } from "../http/request-context.ts";
import { listen } from "../http/server.ts";
import { UnknownRoutes } from "../http/unknown-routes.ts";
import type { Key } from "../keys/key.ts";
import { unlimited } from "../limits/limits.ts";
import { makeSend } from "../net/client/send.ts";
import { endedCall, runningCall, type LiveCall } from "../telemetry/live/live-call.ts";
import { labModel } from "./lab-chat.ts";
import { LabUpstream } from "./lab-upstream.ts";
import type { LabChannel, LabChannelName, LabOperation, LabScenario } from "./scenarios.ts";

/** What the lab uses of the running gateway. */
export interface LabHost extends Pick<ListenerServices, "pressure" | "hasRoom" | "onBug" | "wallMs"> {
  readonly ports: Ports;
  /** The settings in force. */
  readonly settings: () => Settings;
  readonly randomBytes: (count: number) => Uint8Array;
}

/**
 * A gateway for one run: a listener, the whole path of a call and its upstreams, on sockets of this machine. It shares nothing with the
 * gateway that serves clients but the code, the clock and the settings: it has one key, which nobody else knows, and no others; its
 * channels are on no route of clients; its health, receipts and counts are its own, and end with it.
 */
export interface LabGateway {
  readonly url: string;
  readonly token: string;
  /** The calls so far by their request ids, running ones included. */
  calls(): ReadonlyMap<string, LiveCall>;
  channels(): readonly LabChannelState[];
  /** Resolves when no call runs, and the record of each is made. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

export interface LabChannelState {
  readonly name: LabChannelName;
  readonly behaviour: string;
  /** How many requests it got. */
  readonly asked: number;
  /** Null: it may be asked. */
  readonly breaker: OpenBreaker | null;
}

export async function openLabGateway({ channels, routing, operation }: LabScenario, host: LabHost): Promise<LabGateway> {
  const upstreams = await Promise.all(channels.map(async (channel) => ({ channel, upstream: await LabUpstream.open(channel.behaviour) })));
  const settings = host.settings();
  const snapshot = buildSnapshot(
    {
      ...settings,
      channels: upstreams.map(({ channel, upstream }, tier) => channelSetting(channel, operation, upstream.url, tier)),
      keys: [],
      routing: { ...settings.routing, ...routing },
      // Only the lab connects to it.
      service: { ...settings.service, connectionsPerAddressMax: null, trustedProxies: null, corsOrigins: null, openAudioLists: false },
    },
    new Map(),
  );
  const ended = new Map<string, LiveCall>();
  const ports: Ports = { ...host.ports, send: makeSend(() => undefined, host.ports.nowMs) };
  const state = new UpstreamState(ports);
  const ledger = new Ledger({
    limiter: noLimits,
    receipts: noReceipts,
    ratesOf: () => null,
    wallMs: host.wallMs,
    log: () => undefined,
    observe: (record, receipt) => void ended.set(record.id, endedCall(record, receipt)),
  });
  const gateway = new Gateway(ports, state, dialects, ledger);
  const token = Buffer.from(host.randomBytes(32)).toString("base64url");
  const current = { snapshot, ring: new KeyRing([{ key: labKey, token }], host.randomBytes(32)) };
  const listener = listen({
    ...host,
    host: "127.0.0.1",
    port: 0,
    socket: null,
    reusePort: false,
    tls: null,
    connectionsMax,
    gateway,
    serve: (call) => dispatch(call, gateway),
    current: () => current,
    ready: () => true,
    degraded: () => [],
    authFailures: new AuthFailures(ports.nowMs),
    unknownRoutes: new UnknownRoutes(ports.nowMs, () => undefined),
    metrics: null,
    traces: null,
  });
  const candidates = [...snapshot.routes.values()].flatMap(({ tiers }) => tiers.flat());
  return {
    url: listener.url,
    token,
    calls: () => {
      const nowMs = ports.nowMs();
      const running = [...gateway.calls.admitted()].map((call) => [call.facts.id, runningCall(call, nowMs)] as const);
      return new Map([...running, ...ended]);
    },
    channels: () =>
      upstreams.map(({ channel: { name, behaviour }, upstream: { asked } }) => ({
        name,
        behaviour,
        asked,
        breaker: state.openBreakers(ofChannel(candidates, name))[0] ?? null,
      })),
    idle: () => gateway.calls.whenIdle(),
    close: async () => {
      await Promise.all(upstreams.map(({ upstream }) => upstream.close()));
      await listener.close();
    },
  };
}

/** More than a run has calls at a time. */
const connectionsMax = 128;

/** The settings that the channel would have in a file that gives no more than this. */
function channelSetting({ name, timeouts }: LabChannel, operation: LabOperation, baseUrl: string, tier: number): ChannelSetting {
  const entry = { name, base_url: baseUrl, tier: tier + 1, models: [labModel], capabilities: { operations: [operation] } };
  const reading = readRuntimeChannel(entry, [], { allowPrivate: true, localModels: [], own: [] });
  if (!reading.ok) throw new Error(`the channel of the lab cannot be used: ${JSON.stringify(reading.problems)}`);
  return { ...reading.setting, timeouts: { ...reading.setting.timeouts, ...timeouts } };
}

function ofChannel(candidates: readonly Candidate[], name: string): readonly Candidate[] {
  return candidates.filter(({ deployment }) => deployment.channel.name === name);
}

const labKey: Key = {
  id: "lab",
  name: "lab",
  models: null,
  operations: null,
  channels: null,
  expiresMs: null,
  splits: { audio: false, input: false },
  limits: unlimited,
  group: null,
};

const noLimits: Limiter = {
  precheck: () => null,
  reserveSlot: () => ({ kind: "slot", release: () => undefined }),
  admit: () => ({ kind: "grant", rateLimitStatus: null, settle: () => undefined }),
};

const noReceipts: ReceiptBook = {
  full: false,
  open: () => Promise.resolve(),
  openDeferred: () => undefined,
  close: () => Promise.resolve(),
};
