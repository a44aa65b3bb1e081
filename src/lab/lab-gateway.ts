import type { Candidate } from "../channels/channel.ts";
import type { ChannelSetting } from "../config/settings.ts";
import { readRuntimeChannel } from "../config/runtime-channel.ts";
import type { OpenBreaker } from "../gateway/upstream-state/upstream-state.ts";
import { makeSend } from "../net/client/send.ts";
import { endedCall, runningCall, type LiveCall } from "../telemetry/live/live-call.ts";
import { labModel } from "./lab-chat.ts";
import { LabUpstream } from "./lab-upstream.ts";
import { openPrivateGateway, type PrivateHost } from "./private-gateway.ts";
import type { LabChannel, LabChannelName, LabOperation, LabScenario } from "./scenarios.ts";

/** A private gateway for one run, with its upstreams. */
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

export async function openLabGateway({ channels, routing, operation }: LabScenario, host: PrivateHost): Promise<LabGateway> {
  const upstreams = await Promise.all(channels.map(async (channel) => ({ channel, upstream: await LabUpstream.open(channel.behaviour) })));
  const ended = new Map<string, LiveCall>();
  const { url, token, gateway, state, snapshot, close } = openPrivateGateway(host, {
    name: "lab",
    ports: { ...host.ports, send: makeSend(() => undefined, host.ports.nowMs) },
    channels: upstreams.map(({ channel, upstream }, tier) => channelSetting(channel, operation, upstream.url, tier)),
    discovered: new Map(),
    routing,
    observe: (record, receipt) => void ended.set(record.id, endedCall(record, receipt)),
  });
  const candidates = [...snapshot.routes.values()].flatMap(({ tiers }) => tiers.flat());
  return {
    url,
    token,
    calls: () => {
      const nowMs = host.ports.nowMs();
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
      await close();
    },
  };
}

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
