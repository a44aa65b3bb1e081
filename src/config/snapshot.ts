import { candidatesOf, type Candidate, type Channel, type Route } from "../channels/channel.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { presetNamed } from "../dialects/presets.ts";
import type { ChannelSetting, Settings } from "./settings.ts";

/**
 * Builds the routes: each model name that clients may use, with all of its candidates by tier. A channel whose models are discovered
 * serves those in `discovered`, and none before they are known.
 */
export function buildSnapshot(settings: Settings, discovered: ReadonlyMap<string, readonly string[]>): Snapshot {
  const candidatesByModel = new Map<string, Candidate[]>();
  for (const channel of settings.channels) {
    // Several client names may map to one upstream model. They share a deployment, and so its health.
    const deployments = new Map<string, readonly Candidate[]>();
    for (const [model, upstreamModel] of namesOf(channel, discovered)) {
      const candidates = deployments.get(upstreamModel) ?? candidatesFor(channel, upstreamModel);
      deployments.set(upstreamModel, candidates);
      const known = candidatesByModel.get(model);
      if (known === undefined) candidatesByModel.set(model, [...candidates]);
      else for (const candidate of candidates) known.push(candidate);
    }
  }
  const anyModel = settings.channels.filter((channel) => channel.models.kind === "any");
  return {
    version: settings.version,
    channels: settings.channels,
    routes: new Map([...candidatesByModel].map(([model, candidates]) => [model, routeOf(model, candidates)])),
    wildcard: anyModel.length === 0 ? null : wildcardOf(anyModel),
    keys: settings.keys.map(({ key }) => key),
    routing: settings.routing,
    service: settings.service,
  };
}

/** Far more than any provider has: a longer list is not a list of models. */
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

/** Clients choose these names, so that the cache of routes is bounded, in names and in candidates. */
const cachedNamesMax = 1024;
const cachedCandidatesMax = 100_000;

function wildcardOf(channels: readonly Channel[]): (model: string) => Route | null {
  const cached = new Map<string, Route>();
  const size = channels.reduce((sum, channel) => sum + channel.credentials.length, 0);
  const namesMax = Math.max(8, Math.min(cachedNamesMax, Math.floor(cachedCandidatesMax / size)));
  return (model) => {
    if (!isModelName(model)) return null;
    const known = cached.get(model);
    const route =
      known ??
      routeOf(
        model,
        withModel(channels, model).flatMap((channel) => candidatesFor(channel, model)),
      );
    // A map keeps the order of insertion, so that the first name is the least recently used one.
    cached.delete(model);
    cached.set(model, route);
    if (cached.size > namesMax) {
      const oldest = cached.keys().next();
      if (oldest.done !== true) cached.delete(oldest.value);
    }
    return route;
  };
}

/** A name that shows whose model it is goes to that provider: the others would only refuse it. */
function withModel(channels: readonly Channel[], model: string): readonly Channel[] {
  const makers = channels.filter(({ provider }) => provider !== null && presetNamed(provider)?.modelNames?.test(model) === true);
  return makers.length === 0 ? channels : makers;
}
