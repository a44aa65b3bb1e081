import type { Channel } from "../channels/channel.ts";
import type { ServiceSettings } from "../gateway/snapshot.ts";
import type { Key } from "../keys/key.ts";
import type { RoutingPolicy } from "../routing/policy.ts";
import type { ModelsSetting } from "./kinds.ts";
import type { Listen } from "./listen.ts";

/** Everything a configuration says, complete and immutable. Nothing downstream asks whether something was set. */
export interface Settings {
  readonly listen: Listen;
  readonly admin: Listen | null;
  readonly dataDir: string;
  readonly channels: readonly ChannelSetting[];
  /** The upstream keys by credential name. A credential that is not here is sent without a key. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly keys: readonly ClientKey[];
  readonly routing: RoutingPolicy;
  readonly service: ServiceSettings;
  readonly logLevel: LogLevel;
  /** Changes whenever anything here changes, secrets included. */
  readonly version: string;
}

export interface ChannelSetting extends Channel {
  readonly models: ModelsSetting;
}

/** A key and the text a client proves it with. */
export interface ClientKey {
  readonly key: Key;
  readonly token: string;
}

export type LogLevel = "debug" | "info" | "warn" | "error";
