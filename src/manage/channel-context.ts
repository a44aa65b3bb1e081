import type { TestCall, WantedCalls } from "./channel-test/test-calls.ts";
import type { ManageContext } from "./context.ts";

/** Actions on channels also need the running gateway, which the command line does not have. */
export interface ChannelContext extends ManageContext {
  readonly channels: RunningChannels;
}

/** What changes of channels need, which the command line has as well. */
export interface ChannelEditContext extends ManageContext {
  readonly channels: ChannelRules;
}

export interface ChannelRules {
  /** Whether the configuration has a channel of this name. */
  readonly isInFile: (name: string) => boolean;
  /** Why the gateway cannot use the settings of a channel. Each problem says how to fix it. */
  readonly check: (
    entry: Readonly<Record<string, unknown>>,
    secrets: readonly string[],
  ) => Promise<readonly { readonly path: string; readonly message: string }[]>;
  /** Encrypts the secrets of a channel for the store. */
  readonly seal: (channel: string, secrets: readonly string[]) => string;
}

/** The channels of this process. */
export interface RunningChannels extends ChannelRules {
  /** All channels, including those of the file, with their state. */
  readonly status: () => readonly ChannelStatus[];
  /** Sends a small request to the upstream. Null if this process has no such channel. It has a time limit and does not reject. */
  readonly test: (name: string) => Promise<ChannelTest | null>;
  /** Makes a real call for each operation. `busy`: that is being done already. */
  readonly call: (name: string, wanted: WantedCalls, signal: AbortSignal) => Promise<readonly TestCall[] | "absent" | "busy">;
  /** Forgets the lessons of a channel, here and soon after in other processes. Returns how many there were here. */
  readonly forget: (name: string) => number;
  /** Ends the cool-downs of a channel, here and soon after in other processes. Returns how many there were here. */
  readonly clear: (name: string) => number;
}

export interface ChannelStatus {
  readonly name: string;
  readonly source: "file" | "store";
  readonly provider: string | null;
  /** Without anything secret. */
  readonly baseUrl: string;
  readonly tier: number;
  readonly weight: number;
  readonly tags: readonly string[];
  /** As clients name them; null if it takes any model. */
  readonly models: readonly string[] | null;
  /** `impaired`: some of its scopes cool down; `cooling`: all of them do; `idle`: it serves no model. */
  readonly state: "ready" | "impaired" | "cooling" | "idle";
  /** Its hosts, credentials, deployments and quota groups whose breaker is not closed. */
  readonly troubles: readonly ChannelTrouble[];
  /** What this process learned from refusals of its upstream. */
  readonly learned: readonly ChannelLesson[];
  /** Calls in flight, and the most there may be. */
  readonly running: number;
  readonly concurrencyMax: number;
}

/** What a model is not asked for any more, because its upstream refused it. */
export interface ChannelLesson {
  /** The upstream's name of the model. */
  readonly model: string;
  /** The most output tokens that the model is asked for. */
  readonly maxTokens: number | null;
  /** An option that the gateway does not add to requests for the model. */
  readonly unsupported: string | null;
  /** On the wall clock. */
  readonly untilMs: number;
}

export interface ChannelTrouble {
  /** Such as `host api.example.com:443`. */
  readonly scope: string;
  /** `half_open`: single requests probe whether it works again. */
  readonly state: "half_open" | "open";
  /** The kind of failure that opened the breaker. */
  readonly cause: string;
  /** On the wall clock. */
  readonly untilMs: number;
}

/** The result of a test. It contains no text of the upstream. */
export interface ChannelTest {
  readonly ok: boolean;
  /** The upstream's status; null if there was no response. */
  readonly status: number | null;
  /** `ok`, or the kind of failure. */
  readonly code: string;
  readonly tookMs: number;
}
