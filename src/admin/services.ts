import type { ChannelContext, ChannelLesson } from "../manage/channel-context.ts";
import type { Key } from "../keys/key.ts";
import type { Operation } from "../operations/operation.ts";

/** Everything the admin API needs from the rest, handed in by whoever builds the parts. */
export interface Services extends ChannelContext {
  /** Of this program. */
  readonly version: string;
  readonly randomBytes: (count: number) => Uint8Array;
  /** How the parts are. Never waits longer than a moment, and does not reject. */
  readonly health: () => Promise<GatewayHealth>;
  /** What would be done with a request now. Takes nothing and changes nothing. */
  readonly explain: (ask: ExplainAsk) => Promise<Explained>;
}

export interface GatewayHealth {
  /** `degraded`: calls are served, but something needs a look. */
  readonly status: "ok" | "degraded" | "stopping";
  readonly store: { readonly engine: string; readonly ok: boolean; readonly detail: string | null };
  readonly state: { readonly kind: string; readonly ok: boolean; readonly detail: string | null };
  readonly journal: { readonly waitingBytes: number };
  /** Plain HTTP on an address others can reach. */
  readonly insecureTransport: boolean;
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
