import { candidatesOf, type Candidate, type Channel, type Route } from "../channels/channel.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import type { ChannelSetting, Settings } from "./settings.ts";

/**
 * Builds what calls are routed by: each model a client may name, with every way to serve it, best tier first. A
 * channel whose models are discovered serves what `discovered` says of it, and nothing until then.
 */
export function buildSnapshot(settings: Settings, discovered: ReadonlyMap<string, readonly string[]>): Snapshot {
  const ways = new Map<string, Candidate[]>();
  for (const channel of settings.channels) {
    // Several client names may lead to one upstream model: they share a deployment, and so its health.
    const deployments = new Map<string, readonly Candidate[]>();
    for (const [model, upstreamModel] of namesOf(channel, discovered)) {
      const candidates = deployments.get(upstreamModel) ?? candidatesFor(channel, upstreamModel);
      deployments.set(upstreamModel, candidates);
      const known = ways.get(model);
      if (known === undefined) ways.set(model, [...candidates]);
      else for (const candidate of candidates) known.push(candidate);
    }
  }
  const anyModel = settings.channels.filter((channel) => channel.models.kind === "any");
  return {
    version: settings.version,
    channels: settings.channels,
    routes: new Map([...ways].map(([model, candidates]) => [model, routeOf(model, candidates)])),
    wildcard: anyModel.length === 0 ? null : wildcardOf(anyModel),
    keys: settings.keys.map(({ key }) => key),
    routing: settings.routing,
    service: settings.service,
  };
}

/** No provider has nearly as many; a list beyond it is not a list of models. */
const discoveredMax = 10_000;
const modelCharactersMax = 256;

function namesOf(channel: ChannelSetting, discovered: ReadonlyMap<string, readonly string[]>): Iterable<readonly [string, string]> {
  switch (channel.models.kind) {
    case "map":
      return channel.models.names;
    case "any":
      return [];
    case "discovered": {
      const { listedPrefix = "" } = channel.models;
      const listed = (discovered.get(channel.name) ?? []).slice(0, discoveredMax);
      const names = new Set(listed.map((name) => withoutPrefix(name, listedPrefix)).filter(isModelName));
      return [...names].map((name) => [name, name] as const);
    }
  }
}

function withoutPrefix(name: string, prefix: string): string {
  return name.startsWith(prefix) ? name.slice(prefix.length) : name;
}

function isModelName(name: string): boolean {
  return name.length > 0 && name.length <= modelCharactersMax && !/\p{Cc}/u.test(name);
}

function candidatesFor(channel: Channel, model: string): readonly Candidate[] {
  return candidatesOf({ id: `${channel.name}/${model}`, channel, model });
}

function routeOf(model: string, candidates: readonly Candidate[]): Route {
  const tiers = new Map<number, Candidate[]>();
  for (const candidate of candidates) {
    const { tier } = candidate.deployment.channel;
    const known = tiers.get(tier);
    if (known === undefined) tiers.set(tier, [candidate]);
    else known.push(candidate);
  }
  const ascending = [...tiers].sort(([one], [other]) => one - other);
  return { model, tiers: ascending.map(([, members]) => members), size: candidates.length };
}

/** Clients choose the names they ask for, so what is remembered of them is bounded: in names, and in candidates. */
const rememberedNamesMax = 1024;
const rememberedCandidatesMax = 100_000;

function wildcardOf(channels: readonly Channel[]): (model: string) => Route | null {
  const remembered = new Map<string, Route>();
  const size = channels.reduce((sum, channel) => sum + channel.credentials.length, 0);
  const namesMax = Math.max(8, Math.min(rememberedNamesMax, Math.floor(rememberedCandidatesMax / size)));
  return (model) => {
    if (!isModelName(model)) return null;
    const known = remembered.get(model);
    const route =
      known ??
      routeOf(
        model,
        channels.flatMap((channel) => candidatesFor(channel, model)),
      );
    // A map keeps the order of insertion: the first name is the one that was asked for longest ago.
    remembered.delete(model);
    remembered.set(model, route);
    if (remembered.size > namesMax) {
      const oldest = remembered.keys().next();
      if (oldest.done !== true) remembered.delete(oldest.value);
    }
    return route;
  };
}
