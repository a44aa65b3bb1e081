import type { Channel } from "../channels/channel.ts";
import type { ServiceSettings } from "../gateway/snapshot.ts";
import type { Key } from "../keys/key.ts";
import type { RoutingPolicy } from "../routing/plan.ts";
import type { Price } from "../usage/price.ts";
import type { ModelsSetting } from "./kinds.ts";
import type { Listen } from "./listen.ts";

/** Everything a configuration says, complete and immutable. Nothing downstream asks whether something was set. */
export interface Settings {
  readonly listen: Listen;
  readonly admin: Listen | null;
  /** Host names under which the admin listener may be reached, beside its own. */
  readonly adminNames: readonly string[];
  /** People reach it over TLS, which something in front of it ends. */
  readonly adminSecure: boolean;
  readonly dataDir: string;
  /** `sqlite`, or the address of a PostgreSQL. */
  readonly store: string;
  /** `memory`, or the address of a Redis. */
  readonly state: string;
  readonly stateLoss: "split" | "open" | "closed";
  readonly allowPrivate: boolean;
  readonly prices: readonly Price[];
  readonly receipts: ReceiptSettings;
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

export interface ReceiptSettings {
  readonly sync: boolean;
  readonly keepMs: number;
  readonly keepHoursMs: number;
}
