import type { ManageContext } from "../manage/context.ts";
import type { Key } from "../keys/key.ts";
import type { Operation } from "../operations/operation.ts";

/** Everything the admin API needs from the rest, handed in by whoever builds the parts. */
export interface Services extends ManageContext {
  /** Of this program. */
  readonly version: string;
  readonly randomBytes: (count: number) => Uint8Array;
  /** How the parts are. Never waits longer than a moment, and does not reject. */
  readonly health: () => Promise<Health>;
  readonly channels: ChannelServices;
  /** What would be done with a request now. Takes nothing and changes nothing. */
  readonly explain: (ask: ExplainAsk) => Promise<Explained>;
}

export interface Health {
  /** `degraded`: calls are served, but something needs a look. */
  readonly status: "ok" | "degraded" | "stopping";
  readonly store: { readonly engine: string; readonly ok: boolean; readonly detail: string | null };
  readonly state: { readonly kind: string; readonly ok: boolean; readonly detail: string | null };
  readonly journal: { readonly waitingBytes: number };
  /** Plain HTTP on an address others can reach. */
  readonly insecureTransport: boolean;
}

export interface ChannelServices {
  /** Whether an entry, as the configuration file would hold it, is one the gateway can serve with; each problem names its mend. */
  readonly check: (
    entry: Readonly<Record<string, unknown>>,
    secrets: readonly string[],
  ) => Promise<readonly { readonly path: string; readonly message: string }[]>;
  /** Encrypts the secrets of a channel for the store. */
  readonly seal: (channel: string, secrets: readonly string[]) => string;
  /** Every channel there is now, also those of the file, and how each one is. */
  readonly status: () => readonly ChannelStatus[];
  /** Asks the upstream for something small. Null: there is no such channel in this process. It ends by itself, and does not reject. */
  readonly test: (name: string) => Promise<ChannelTest | null>;
  /** Forgets what refusals of a channel taught, here and, within moments, in other processes. Returns how much it was here. */
  readonly forget: (name: string) => number;
}

export interface ChannelStatus {
  readonly name: string;
  readonly source: "file" | "store";
  readonly provider: string | null;
  /** Where it leads, without anything secret. */
  readonly baseUrl: string;
  readonly tier: number;
  readonly weight: number;
  readonly tags: readonly string[];
  /** As clients name them; null: it takes any. */
  readonly models: readonly string[] | null;
  /** `ready`: all of it; `impaired`: some of its scopes cool down; `cooling`: nobody is sent there; `idle`: it serves no model. */
  readonly state: "ready" | "impaired" | "cooling" | "idle";
  /** What is not well of it: hosts, credentials, deployments, quotas. */
  readonly troubles: readonly ChannelTrouble[];
  /** What refusals of its upstream taught this process. */
  readonly learned: readonly ChannelLesson[];
  /** Calls in flight, and how many there may be. */
  readonly running: number;
  readonly concurrencyMax: number;
}

/** What a model is asked for no more, because its upstream refused it. */
export interface ChannelLesson {
  /** The upstream's name of it. */
  readonly model: string;
  /** The most output tokens that it is asked for. */
  readonly maxTokens: number | null;
  /** An option that the gateway does not add to requests for it. */
  readonly unsupported: string | null;
  /** On the wall clock. */
  readonly untilMs: number;
}

export interface ChannelTrouble {
  /** Such as `host api.example.com:443`. */
  readonly scope: string;
  /** `half_open`: single requests try whether it is back. */
  readonly standing: "half_open" | "open";
  /** The kind of failure that did it. */
  readonly cause: string;
  /** On the wall clock. */
  readonly untilMs: number;
}

/** What came of a test. Nothing an upstream wrote is in it. */
export interface ChannelTest {
  readonly ok: boolean;
  /** The upstream's status; null where it did not come to that. */
  readonly status: number | null;
  /** `ok`, or the kind of failure, in our own words. */
  readonly code: string;
  readonly tookMs: number;
}

export interface ExplainAsk {
  readonly operation: Operation;
  readonly model: string;
  /** Whose rights and limits apply; null for one that may do everything. It is neither revoked nor expired. */
  readonly key: Key | null;
  readonly stream: boolean;
  /** How long the prompt would be; null: short. */
  readonly promptTokens: number | null;
}

export interface Explained {
  /** `wait`: it would wait its turn, as every channel is busy or cools down. */
  readonly outcome: "serve" | "wait" | "refuse";
  /** Everything that stands against it, what the client would be told first. Empty unless it is refused. */
  readonly refusals: readonly ExplainedRefusal[];
  /** `last_resort`: nobody is well, and a few calls try all the same. Null where it does not come to a plan. */
  readonly mode: "normal" | "last_resort" | null;
  /** In the order in which they would be tried. Some of that order is drawn by lot. */
  readonly candidates: readonly ExplainedCandidate[];
  readonly skipped: readonly ExplainedSkip[];
  /** When somebody may be asked again, where nobody may now. */
  readonly retryAfterMs: number | null;
  /** What would be taken of the key's limits for it. */
  readonly reserve: { readonly tokens: number; readonly nanos: number | null } | null;
}

export interface ExplainedRefusal {
  /** What the client would get. */
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

export interface ExplainedCandidate {
  readonly learned: readonly ChannelLesson[];
  readonly channel: string;
  /** The upstream's name of the model. */
  readonly model: string;
  readonly tier: number;
  readonly weight: number;
  /** It is on trial after a trouble: this call would be its probe. */
  readonly probe: boolean;
  /** Whether its price is known. */
  readonly priced: boolean;
}

export interface ExplainedSkip {
  readonly channel: string;
  readonly model: string;
  /** Such as `cooling`, `saturated`, `context_too_small`, or `key_channels`: the key is bound to others. */
  readonly because: string;
  /** The scope that holds it back, and the kind of failure that did. */
  readonly scope: string | null;
  readonly cause: string | null;
  readonly forMs: number | null;
}
