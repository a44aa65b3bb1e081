import type { Channel } from "../channels/channel.ts";
import type { ServiceSettings } from "../gateway/snapshot.ts";
import type { Group } from "../keys/group.ts";
import type { Key } from "../keys/key.ts";
import type { RoutingPolicy } from "../routing/plan.ts";
import type { Price } from "../usage/price.ts";
import type { ModelsSetting } from "./kinds.ts";
import type { Listen } from "./listen.ts";

/** A complete and immutable configuration: every default is filled in. */
export interface Settings {
  readonly listen: Listen;
  /** The mode of the file, if clients connect through a unix socket. */
  readonly listenMode: number;
  readonly admin: Listen | null;
  /** Null: plain HTTP. */
  readonly tls: TlsSettings | null;
  /** Host names of the admin listener, in addition to its own address. */
  readonly adminNames: readonly string[];
  /** It is reached over https: by its own certificate, or through a proxy in front of it. */
  readonly adminSecure: boolean;
  readonly dataDir: string;
  /** `sqlite`, or the address of a PostgreSQL. */
  readonly store: string;
  /** The most connections of this process to PostgreSQL. */
  readonly storeConnections: number;
  /** `store`, or the address of a standby that answers queries for usage and receipts. */
  readonly readStore: string;
  /** `memory`, or the address of a Redis. */
  readonly state: string;
  readonly stateLoss: "split" | "open" | "closed";
  readonly allowPrivate: boolean;
  readonly prices: readonly Price[];
  readonly receipts: ReceiptSettings;
  readonly channels: readonly ChannelSetting[];
  /** The upstream keys by credential name. A credential that is not here is sent without a key. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly groups: readonly Group[];
  readonly keys: readonly ClientKey[];
  readonly signIn: SignInSettings;
  readonly tokenIssuers: readonly TokenIssuerSetting[];
  readonly routing: RoutingPolicy;
  readonly service: ServiceSettings;
  readonly metrics: MetricsSettings;
  /** Null: nothing is exported. */
  readonly otel: OtelSettings | null;
  readonly webhooks: readonly WebhookSetting[];
  readonly logFormat: "auto" | "json" | "text";
  readonly logLevel: "debug" | "info" | "warn" | "error";
  /** The values of the file as they are written, with the variables in place of their names. */
  readonly written: unknown;
  /** The same with the names of variables. */
  readonly unresolved: unknown;
  /** Changes whenever anything here changes, secrets included. */
  readonly version: string;
  readonly places: Places;
}

/** Where the entries of each list were written, by name, for messages: a file and a line, or a variable. */
export type Places = Readonly<Record<"groups" | "keys" | "channels" | "prices", ReadonlyMap<string, string>>>;

export interface ChannelSetting extends Channel {
  readonly models: ModelsSetting;
}

/** A key and the secret that a client sends for it. */
export interface ClientKey {
  readonly key: Key;
  readonly token: string;
}

export interface SignInSettings {
  /** People may log in with a name and a password. */
  readonly localAccounts: boolean;
  readonly sessionLifeMs: number;
  readonly sessionIdleMs: number;
  /** Null: people have local accounts only. */
  readonly oidc: OidcSettings | null;
}

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | null;
  /** The origin of the admin listener, as browsers see it. */
  readonly publicUrl: string;
  /** Where the provider sends the browser after a sign-out; null: to a page of its own. */
  readonly logoutRedirect: string | null;
  readonly scopes: readonly string[];
  readonly groupsClaim: string;
  readonly adminGroups: readonly string[];
  /** By a group of the provider, the group that its members manage. */
  readonly groupAdmins: ReadonlyMap<string, string>;
  /** `*` stands for everybody. */
  readonly viewerGroups: readonly string[];
}

/** An issuer whose tokens are accepted in place of keys, and which key's permissions they have. */
export interface TokenIssuerSetting {
  readonly name: string;
  readonly issuer: string;
  readonly audience: string;
  readonly jwksUri: string | null;
  readonly lifetimeMs: number;
  readonly rules: readonly TokenRuleSetting[];
}

export interface TokenRuleSetting {
  readonly claims: ReadonlyMap<string, string>;
  readonly key: Key;
  /** The id or the name of a key of the store, in place of `key`; null for none. A group of `key` goes before its own. */
  readonly storedKey: string | null;
  /** The id or the name of a group of the store that tokens belong to, in place of the key's own; null for none. */
  readonly storedGroup: string | null;
  /** Whether it names a group, of the file or of the store: then its tokens stay there, wherever the key is put. */
  readonly namesGroup: boolean;
}

/** The paths are absolute. */
export interface TlsSettings {
  readonly certFile: string;
  readonly keyFile: string;
  readonly clientCaFile: string | null;
  readonly clientCertificates: "none" | "optional" | "required";
  /** The admin listener has the certificate as well. */
  readonly admin: boolean;
}

export interface MetricsSettings {
  readonly enabled: boolean;
  /** Without a token. */
  readonly public: boolean;
  /** Opens the metrics and nothing else. */
  readonly token: string | null;
  /** The clients' listener shows them as well. */
  readonly dataPort: boolean;
  readonly keyLabels: boolean;
  readonly budgets: boolean;
}

export interface OtelSettings {
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly traces: boolean;
  readonly metrics: boolean;
  readonly serviceName: string;
  readonly share: number;
  readonly tracesPerSecond: number;
  readonly slowMs: number;
  readonly intervalMs: number;
  readonly propagate: boolean;
  readonly conventions: "latest" | "1.41" | "1.36";
}

export interface WebhookSetting {
  readonly url: string;
  readonly secret: string;
  readonly types: readonly ("budget.warning" | "budget.spent" | "channel.down" | "channel.up" | "key.expiring" | "cost.jump")[];
}

export interface ReceiptSettings {
  readonly sync: boolean;
  readonly keepMs: number;
  readonly keepHoursMs: number;
  /** The share of plain successes whose receipts are stored. */
  readonly keptShare: number;
}
