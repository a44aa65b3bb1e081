import type { Channel, Route } from "../channels/channel.ts";
import type { Key } from "../keys/key.ts";
import type { RoutingPolicy } from "../routing/policy.ts";

/**
 * One version of the configuration, complete and immutable. It is built and validated aside, then swapped in; a call
 * keeps the one it began with, so a reload never changes a call half-way.
 */
export interface Snapshot {
  /** Short hash of what it was built from, shown in health and logs. */
  readonly version: string;
  readonly channels: readonly Channel[];
  /** Client-visible model name to the ways of serving it. */
  readonly routes: ReadonlyMap<string, Route>;
  /** For models no route names: the channels that take any model (`models: "*"`), as a function of the asked name. */
  readonly wildcard: ((model: string) => Route | null) | null;
  /** Since when its models are there; absent where nobody asks for that. */
  readonly modelTimes?: ModelTimes;
  readonly keys: readonly Key[];
  readonly routing: RoutingPolicy;
  readonly service: ServiceSettings;
}

/** How the data plane behaves towards its clients. */
export interface ServiceSettings {
  readonly bodyBytesMax: number;
  /** The largest audio file, and the longest text to be spoken. */
  readonly audioBytesMax: number;
  readonly speechCharactersMax: number;
  /** The same where long ones may be split. */
  readonly longAudioBytesMax: number;
  readonly longSpeechCharactersMax: number;
  /** Silence after which a stream gets a comment line, and after which a waiting stream gets its head; 0: never. */
  readonly keepAliveMs: number;
  readonly earlyHeadersMs: number;
  /** A client that takes no bytes for this long is cut off. */
  readonly writeStallMs: number;
  /** How long a client may take to send its body. */
  readonly bodyReadMs: number;
  /** The same for an upload of up to 25 MiB; a larger one has more in proportion. */
  readonly uploadReadMs: number;
  /** How many uploads may be read at once. */
  readonly uploadsMax: number;
  readonly inFlightMax: number;
  /** Wrong keys from one address in a minute; null: as many as it likes. */
  readonly wrongKeysMax: number | null;
  /** Connections of one address at the same time, of each process; null: as many as it likes. */
  readonly connectionsPerAddressMax: number | null;
  /** Show `x-sluice-channel` and `x-sluice-attempts`. */
  readonly exposeChannels: boolean;
  /** After SIGTERM: how long to keep accepting, and how long running streams may go on. */
  readonly lingerMs: number;
  readonly drainMs: number;
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
