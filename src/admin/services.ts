import type { LabServices } from "./lab-services.ts";
import type { ChannelContext, ChannelLesson } from "../manage/channel-context.ts";
import type { KeptBackups } from "../manage/backup.ts";
import type { DesiredResources, ResourceContext } from "../manage/resource-file/desired-resources.ts";
import type { RunningWebhooks } from "../manage/webhooks.ts";
import type { OwnBudgets } from "../manage/problems/own-budgets.ts";
import type { BudgetRefusals } from "../limits/budget-refusal.ts";
import type { BudgetUse } from "../limits/budget-use.ts";
import type { Key } from "../keys/key.ts";
import type { SignInProvider } from "../gateway/sign-in.ts";
import type { TextSeal } from "../operations/conversation/sealed-parts.ts";
import type { Operation } from "../operations/operation.ts";
import type { FirstContentTimes } from "../usage/first-content.ts";

/** Everything that the admin API needs from the rest of the gateway. */
export interface Services extends ChannelContext {
  /** The version of the gateway. */
  readonly version: string;
  readonly told: ToldCommands;
  readonly randomBytes: (count: number) => Uint8Array;
  /** Whether there are models on this machine, which a channel of the store can serve as well. */
  readonly hasLocalModels: () => boolean;
  /** The health of the parts. It answers quickly and does not reject. */
  readonly health: () => Promise<GatewayHealth>;
  /** The metrics of all workers, in the text format of Prometheus. */
  readonly metrics: () => Promise<string>;
  /** A monotonic clock, which the times of running calls are on. */
  readonly nowMs: () => number;
  /** The settings, and where their values come from. */
  readonly configuration: () => Promise<ExplainedSettings>;
  /** What comparing the store with a resource file needs. */
  readonly resources: ResourceServices;
  /** What this gateway counted minute by minute since its start, for a day at most. */
  readonly traffic: TrafficHistory;
  /** What was spent of budgets, as of a minute ago or so. */
  readonly budgets: () => SpentBudgets;
  /** The same for administrators of groups. */
  readonly ownBudgets: OwnBudgets;
  /** Calls back with the calls of all workers as they happen. Null if too many watch already; else a function that stops it. */
  readonly live: (watcher: (frame: LiveCallsFrame) => unknown) => (() => void) | null;
  /** Makes a request to the port for clients of this gateway. Null if it cannot be reached. It does not reject. */
  readonly dataPlane: (
    path: string,
    init: {
      readonly method: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string | FormData;
      readonly signal: AbortSignal;
    },
  ) => Promise<Response | null>;
  readonly lab: LabServices;
  readonly webhooks: RunningWebhooks;
  readonly backups: KeptBackups;
  readonly signIn: SignInServices;
  /** A dry run of a request. It reserves nothing and changes nothing. */
  readonly explain: (ask: ExplainRequest) => Promise<Explained>;
  /** The same for a request as a client would send it, with what each candidate would be sent; or why a client would be refused. */
  readonly preview: (ask: PreviewRequest) => Promise<RequestPreview | ExplainedRefusal>;
}

/** The command line of the gateway's machine, as others are told of it. */
export interface ToldCommands {
  /** What comes before a command, such as `sluice`. */
  readonly name: string;
  /** Writes the commands in a text as they have to be typed there. */
  readonly asTyped: (text: string) => string;
}

export interface ResourceServices {
  /** What a file says, or what is wrong with it, in sentences. */
  readonly read: (
    file: string,
    text: string,
    variables: Readonly<Record<string, string>>,
  ) => Promise<{ readonly desired: DesiredResources } | { readonly problems: readonly string[] }>;
  readonly unseal: ResourceContext["channels"]["unseal"];
}

/** How people sign in. */
export interface SignInServices {
  /** With a name and a password. */
  readonly localAccounts: boolean;
  readonly sessionLifeMs: number;
  readonly sessionIdleMs: number;
  /** Null: local accounts only. */
  readonly oidc: OidcServices | null;
}

export interface OidcServices {
  readonly provider: SignInProvider;
  /** The origin of this listener, as browsers see it. */
  readonly publicUrl: string;
  readonly adminGroups: readonly string[];
  /** By a group of the provider, the name or id of the group that its members manage. */
  readonly groupAdmins: ReadonlyMap<string, string>;
  /** `*` stands for everybody. */
  readonly viewerGroups: readonly string[];
  /** Encrypts what a browser keeps while its person signs in. */
  readonly seal: TextSeal;
}

export interface GatewayHealth {
  /** Where clients connect, without a path. */
  readonly url: string;
  /** `degraded`: calls are served, but a part does not work. */
  readonly status: "ok" | "degraded" | "stopping";
  readonly store: { readonly engine: string; readonly ok: boolean; readonly detail: string | null };
  readonly state: { readonly kind: string; readonly ok: boolean; readonly detail: string | null };
  readonly journal: { readonly waitingBytes: number };
  /** Plain HTTP on an address that other machines can reach. */
  readonly insecureTransport: boolean;
  /** The certificate of the listeners; null if they speak plain HTTP. */
  readonly certificate: { readonly expiresMs: number; readonly daysLeft: number } | null;
}

export interface ExplainedSettings {
  readonly file: string | null;
  /** Why the file cannot be used as it is now; null if it can. */
  readonly problem: string | null;
  readonly settings: readonly {
    readonly path: string;
    /** The same with numbers in place of names. */
    readonly numbered: string;
    readonly value: unknown;
    readonly origin: "file" | "environment" | "default";
    readonly line: number | null;
    readonly variables: readonly string[];
    readonly otherwise: string | null;
    readonly about: string;
  }[];
}

export interface TrafficHistory {
  since(wallMs: number): readonly TrafficFigures[];
  /** Since when calls are counted; null if they are not, because metrics are off. */
  state(): { readonly inFlight: number; readonly sinceMs: number | null };
  /** Times to first content since then; null if there was no stream. */
  firstContent(wallMs: number): FirstContentTimes | null;
}

/** What happened in one minute. */
export interface TrafficFigures {
  readonly atMs: number;
  readonly calls: number;
  readonly failed: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costUsd: number;
  readonly byOperation: ReadonlyMap<string, { readonly calls: number; readonly failed: number }>;
}

export interface SpentBudgets {
  readonly spent: readonly SpentBudget[];
  /** Whether every key and group with a budget was looked at. */
  readonly isWhole: boolean;
  /** The last refusals of any budget, also of those that were not looked at. */
  readonly refusals: BudgetRefusals;
}

export interface SpentBudget extends BudgetUse {
  readonly of: "key" | "group";
  readonly id: string;
  /** Its label; empty for all models. */
  readonly models: string;
}

export interface LiveCallsFrame {
  readonly calls: readonly LiveCallFacts[];
  readonly running: number;
  readonly omitted: number;
}

/** A call while it runs, and once more when it has ended. Times are on the monotonic clock. */
export interface LiveCallFacts {
  readonly id: string;
  readonly requestId: string;
  readonly keyId: string | null;
  readonly operation: string;
  readonly model: string | null;
  readonly stream: boolean;
  readonly state: string;
  readonly status: number | null;
  readonly error: string | null;
  readonly startedMs: number;
  readonly tookMs: number;
  readonly firstContentMs: number | null;
  readonly outputTokens: number;
  readonly nanos: number | null;
  readonly attempts: readonly {
    readonly channel: string;
    readonly model: string;
    readonly afterMs: number;
    readonly tookMs: number;
    readonly outcome: string;
    readonly error: string | null;
    readonly hedge: boolean;
  }[];
}

export interface ExplainRequest {
  readonly operation: Operation;
  readonly model: string;
  /** The key whose permissions and limits apply, neither revoked nor expired; null for no restrictions. */
  readonly key: Key | null;
  /** The groups that the caller sees: nothing is told of limits of others. Absent for those who see all. */
  readonly groups?: ReadonlySet<string>;
  readonly stream: boolean;
  /** The length of the prompt; null for a short one. */
  readonly promptTokens: number | null;
}

export const previewApis = ["chat", "responses", "messages", "speech", "embedding"] as const;

export interface PreviewRequest {
  readonly api: (typeof previewApis)[number];
  /** As a client would send it. */
  readonly body: Uint8Array;
  readonly key: Key | null;
}

export interface RequestPreview {
  readonly explained: Explained;
  /** One for each candidate, in the same order. */
  readonly sendings: readonly PreviewedSending[];
}

/** What would be sent to a candidate, without anything secret. */
export interface PreviewedSending {
  readonly channel: string;
  readonly model: string;
  /** Why it cannot be sent there; null if it can. */
  readonly refusal: string | null;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** The client speaks another API than the upstream. */
  readonly translated: boolean;
  /** The fields of the request that are left out. */
  readonly dropped: readonly string[];
  /** What the most output tokens are lowered to; null if they are not. */
  readonly clampedTo: number | null;
}

export interface Explained {
  /** `wait`: it would be queued, because all channels are busy or cool down. */
  readonly outcome: "serve" | "wait" | "refuse";
  /** All reasons to refuse it; the first is what the client would be told. Empty unless it is refused. */
  readonly refusals: readonly ExplainedRefusal[];
  /** `last_resort`: no candidate is healthy, and a few calls are sent nevertheless. Null if there is no plan. */
  readonly mode: "normal" | "last_resort" | null;
  /** What may refuse the call besides, and could not be looked at. */
  readonly unknown: readonly string[];
  /** In the order in which they would be tried, which is partly random. */
  readonly candidates: readonly ExplainedCandidate[];
  readonly skipped: readonly ExplainedSkip[];
  /** When a candidate may be available again, if none is now. */
  readonly retryAfterMs: number | null;
  /** What would be reserved of the key's limits. */
  readonly reserve: { readonly tokens: number; readonly nanos: number | null } | null;
}

export interface ExplainedRefusal {
  /** The status of the response to the client. */
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
  /** The call would be a probe of a scope whose breaker was open. */
  readonly probe: boolean;
  /** Whether its price is known. */
  readonly priced: boolean;
}

export interface ExplainedSkip {
  readonly channel: string;
  readonly model: string;
  /** Such as `cooling`, `saturated`, `context_too_small`, or `key_channels`: the key may only use other channels. */
  readonly because: string;
  /** The scope that cools down, and the kind of failure that caused it. */
  readonly scope: string | null;
  readonly cause: string | null;
  readonly forMs: number | null;
}
