/** A way to an upstream: an address, credentials and what is known of it. Holds no secret: credentials are names. */
export interface Channel {
  readonly name: string;
  readonly dialect: string;
  readonly address: Address;
  /** Names of credentials, looked up when a request is sent. More than one makes the channel pooled. */
  readonly credentials: readonly string[];
  readonly pooled: boolean;
  /** Tiers are tried in ascending order. */
  readonly tier: number;
  readonly weight: number;
  /** The most output tokens a client may ask of this channel; `null`: as many as it likes. */
  readonly maxTokensCeiling: number | null;
  readonly timeouts: Timeouts;
  /** Channels that share an account share its cool-down. */
  readonly quota: string | null;
  readonly concurrencyMax: number;
  readonly capabilities: Capabilities;
  readonly quirks: Quirks;
  /** Fixed headers for every request to this channel. */
  readonly headers: Readonly<Record<string, string>>;
  /** Client headers that may travel on to this channel, lower case. */
  readonly forwardHeaders: readonly string[];
  /** An HTTP proxy on the way to this channel. */
  readonly proxy: string | null;
}

/** Where requests go. `{model}` in a path is the upstream's name of the model, percent-encoded. */
export interface Address {
  /** Without a trailing slash, such as `https://api.example.com/v1`. */
  readonly baseUrl: string;
  /** Host and port: what a connection failure is charged to. */
  readonly host: string;
  readonly chatPath: string;
  readonly modelsPath: string | null;
  /** With leading `?`, or empty. */
  readonly query: string;
  /** How a credential is presented: `authorization` takes it as `Bearer …`, any other header bare. */
  readonly authHeader: string;
}

export interface Timeouts {
  readonly connectMs: number;
  /** Until the first byte of an answer that is not streamed. */
  readonly firstByteMs: number;
  /** Until the first content of a stream. */
  readonly firstContentMs: number;
  /** Between any two bytes of a stream. */
  readonly idleMs: number;
  /** Between two data events of a stream: heartbeats must not keep a dead generation alive. */
  readonly progressMs: number;
  readonly totalMs: number;
}

export interface Capabilities {
  /** Continues an assistant message that ends the conversation. */
  readonly prefill: boolean;
  readonly contextTokens: number | null;
  readonly operations: readonly string[];
}

/** Where a compatible upstream differs from the convention, as data that the dialect reads. */
export interface Quirks {
  /** Accepts `stream_options`; where it does not, streamed usage is estimated. */
  readonly streamOptions: boolean;
}

/** One model of one channel. */
export interface Deployment {
  /** `channel/model`, unique in a snapshot. */
  readonly id: string;
  readonly channel: Channel;
  /** The upstream's name of the model. */
  readonly model: string;
}

/** A deployment with one of its channel's credentials: what an attempt is made with. */
export interface Candidate {
  readonly deployment: Deployment;
  readonly credential: string;
  /** Its share of the tier's traffic: the channel's weight divided by its credentials. */
  readonly weight: number;
  /** What its health hangs on: the ids of its host, credential, deployment and quota scopes. */
  readonly scopes: Scopes;
}

export interface Scopes {
  readonly host: string;
  readonly credential: string;
  readonly deployment: string;
  readonly quota: string | null;
}

/** Every way to serve one client-visible model, best tier first. */
export interface Route {
  readonly model: string;
  readonly tiers: readonly (readonly Candidate[])[];
  /** Any way to tell tiers apart is lost in the list; this is how many candidates there are in all. */
  readonly size: number;
}

export function candidatesOf(deployment: Deployment): readonly Candidate[] {
  const { channel } = deployment;
  return channel.credentials.map((credential) => ({
    deployment,
    credential,
    weight: channel.weight / channel.credentials.length,
    scopes: {
      host: `host ${channel.address.host}`,
      credential: `credential ${credential}`,
      deployment: `deployment ${deployment.id}`,
      quota: channel.quota === null ? null : `quota ${channel.quota}`,
    },
  }));
}
