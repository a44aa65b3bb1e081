import type { Candidate, Channel, Route } from "../channels/channel.ts";
import type { Key } from "../keys/key.ts";
import type { RoutingPolicy } from "../routing/plan.ts";

/**
 * One version of the configuration, complete and immutable. It is built and validated before it becomes current. A call keeps the
 * snapshot it began with, so that a reload never changes a running call.
 */
export interface Snapshot {
  /** A short hash of its source, shown in health and logs. */
  readonly version: string;
  readonly channels: readonly Channel[];
  /** By the model name that clients use. */
  readonly routes: ReadonlyMap<string, Route>;
  /** For models that no route names: the channels that accept any model (`models: "*"`). */
  readonly wildcard: ((model: string) => Route | null) | null;
  /** When its models were first offered; absent if nobody needs that. */
  readonly modelTimes?: ModelTimes;
  readonly keys: readonly Key[];
  readonly routing: RoutingPolicy;
  readonly service: ServiceSettings;
}

/** The settings of the data plane. */
export interface ServiceSettings {
  readonly bodyBytesMax: number;
  /** The largest audio file and the longest text of a speech request. */
  readonly audioBytesMax: number;
  readonly speechCharactersMax: number;
  /** The same if long requests may be split. */
  readonly longAudioBytesMax: number;
  readonly longSpeechCharactersMax: number;
  /** Silence after which a stream gets a keep-alive comment, and after which a waiting stream gets its head; 0: never. */
  readonly keepAliveMs: number;
  readonly earlyHeadersMs: number;
  /** A client that receives nothing for this long is disconnected. */
  readonly writeStallMs: number;
  /** How long a client may take to send its body. */
  readonly bodyReadMs: number;
  /** The same for an upload of up to 25 MiB. Larger ones get proportionally more. */
  readonly uploadReadMs: number;
  /** How many uploads may be read at once. */
  readonly uploadsMax: number;
  readonly inFlightMax: number;
  /** Wrong keys from one address per minute; null: no limit. */
  readonly wrongKeysMax: number | null;
  /** Connections from one address at the same time, per process; null: no limit. */
  readonly connectionsPerAddressMax: number | null;
  /** The proxies that tell the address of a client; null: none. */
  readonly trustedProxies: TrustedProxies | null;
  /** Show `x-sluice-channel` and `x-sluice-attempts`. */
  readonly exposeChannels: boolean;
  /** The origins of web pages that may read responses; `*`: any; null: none. */
  readonly corsOrigins: ReadonlySet<string> | null;
  /** The lists of models for speech and of their voices need no key. */
  readonly openAudioLists: boolean;
  /** How long items of answers are kept that their client may refer to; 0: they are not kept. */
  readonly keepItemsMs: number;
  /** After SIGTERM: how long new requests are accepted, and how long running streams may continue. */
  readonly lingerMs: number;
  readonly drainMs: number;
}

/** The proxies whose word about the address of a client is taken, and the header that they write it to. */
export interface TrustedProxies {
  /** The bits that their addresses begin with (`networkPrefix`). */
  readonly prefixes: readonly string[];
  /** A proxy on this machine that connects through the unix socket. */
  readonly overUnixSocket: boolean;
  readonly header: "x-forwarded-for" | "forwarded";
}

/** Since when models are offered, by the names that clients use. The list of models reports it as `created`. */
export interface ModelTimes {
  readonly sinceMs: ReadonlyMap<string, number>;
  /** When the first models were offered: for a model that no list names (`models: "*"`). */
  readonly firstMs: number;
}

/** A model keeps its time for as long as it is offered. A model that comes back gets a new one. */
export function modelTimes(before: ModelTimes | null, models: Iterable<string>, wallMs: number): ModelTimes {
  const sinceMs = new Map<string, number>();
  for (const model of models) sinceMs.set(model, before?.sinceMs.get(model) ?? wallMs);
  return { sinceMs, firstMs: before?.firstMs ?? wallMs };
}

/** What a channel can be asked with; nothing if it takes any model. */
export function candidatesOfChannel(channel: string, { routes }: Snapshot): readonly Candidate[] {
  return [...routes.values()].flatMap(({ tiers }) => tiers.flat().filter(({ deployment }) => deployment.channel.name === channel));
}
