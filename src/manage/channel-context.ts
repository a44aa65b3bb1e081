import type { ManageContext } from "./context.ts";

/** Actions on channels also need the running gateway, which the command line does not have. */
export interface ChannelContext extends ManageContext {
  readonly channels: RunningChannels;
}

/** The channels of this process, handed in by whoever builds the parts. */
export interface RunningChannels {
  /** Why the gateway could not use an entry, as the configuration file would hold it. Each problem says how to fix it. */
  readonly check: (
    entry: Readonly<Record<string, unknown>>,
    secrets: readonly string[],
  ) => Promise<readonly { readonly path: string; readonly message: string }[]>;
  /** Encrypts the secrets of a channel for the store. */
  readonly seal: (channel: string, secrets: readonly string[]) => string;
  /** Every channel there is now, also those of the file, with its state. */
  readonly status: () => readonly ChannelStatus[];
  /** Sends a small request to the upstream. Null: this process has no such channel. It ends by itself, and does not reject. */
  readonly test: (name: string) => Promise<ChannelTest | null>;
  /** Forgets the lessons of a channel, here and, within moments, in other processes. Returns how many there were here. */
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
