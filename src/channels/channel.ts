import type { AudioFormat } from "../media/audio.ts";
import type { Operation, PassthroughOperation } from "../operations/operation.ts";
import type { TranscriptFormat } from "../operations/transcription/transcript.ts";
import type { ChannelAuth } from "./channel-auth.ts";

/** A way to an upstream: its address, the names of its credentials, and what is known about it. It holds no secret. */
export interface Channel {
  readonly name: string;
  /** The preset it was made from. Prices are looked up by it. */
  readonly provider: string | null;
  /** Further names that keys can be bound to. */
  readonly tags: readonly string[];
  /** `public`: the channel was created at run time, so its connections may only go to public addresses. */
  readonly reach: "any" | "public";
  readonly dialect: string;
  readonly address: Address;
  /** Absent: a credential is a key, which is sent in a header of the address. */
  readonly auth?: ChannelAuth;
  /** The names of credentials, which are looked up when a request is sent. A channel with more than one is pooled. */
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
  readonly voices: Voices;
  /** The voices of single models, by their upstream names, where they have their own. */
  readonly modelVoices: ReadonlyMap<string, Voices>;
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
  readonly responsesPath: string;
  readonly transcriptionPath: string;
  readonly translationPath: string;
  readonly speechPath: string;
  readonly passthroughPaths: Readonly<Record<PassthroughOperation, string>>;
  readonly modelsPath: string | null;
  /** With leading `?`, or empty. */
  readonly query: string;
  /** The header that carries a credential, and what stands before it there, such as `Bearer `. */
  readonly authHeader: string;
  readonly authPrefix: string;
}

/** Whether the upstream is a local model, in a process of the gateway. */
export function isLocalModel({ baseUrl }: Pick<Address, "baseUrl">): boolean {
  return baseUrl.startsWith("engine:");
}

export interface Timeouts {
  readonly connectMs: number;
  /** Until the first byte of an answer that is not streamed. */
  readonly firstByteMs: number;
  /** Until the first content of a stream. */
  readonly firstContentMs: number;
  /** Between any two bytes of a stream. */
  readonly idleMs: number;
  /** Between two data events of a stream. Keep-alive comments do not count. */
  readonly progressMs: number;
  readonly totalMs: number;
}

export interface Capabilities {
  /** Continues an assistant message that ends the conversation. */
  readonly prefill: boolean;
  readonly contextTokens: number | null;
  readonly operations: readonly Operation[];
  /** The operations of single models that support fewer than their channel. */
  readonly modelOperations: ReadonlyMap<string, readonly Operation[]>;
  /** The same by a part of the model's name. The first that matches counts. */
  readonly namedOperations?: readonly NamedOperations[];
  /** Descriptions for the list of models, by upstream name. */
  readonly modelDescriptions: ReadonlyMap<string, string>;
  /** The formats it answers in, by the prefix of a model's name. The first that matches counts. */
  readonly transcriptionFormats: readonly ModelFormats[];
  /** `null`: not known, so the client's format is requested. */
  readonly speechFormats: readonly AudioFormat[] | null;
  /** The name prefixes of the models that can send speech as events; `null`: not known, so events are requested. */
  readonly speechEvents: readonly string[] | null;
  /** It translates recordings into English. */
  readonly translation: boolean;
  /** It streams transcripts; if not, the whole text comes as one delta. */
  readonly transcriptionStream: boolean;
  /** The largest file it takes, in bytes and in seconds; `null`: not known. */
  readonly audioBytesMax: number | null;
  readonly audioSecondsMax: number | null;
  /** The longest text it speaks, in characters; `null`: not known. */
  readonly inputCharactersMax: number | null;
  /** Input above these limits is split, served in parts and joined. */
  readonly splitsAudio: boolean;
  readonly splitsInput: boolean;
}

export interface ModelFormats {
  readonly prefix: string;
  readonly formats: readonly TranscriptFormat[];
}

export interface NamedOperations {
  readonly part: string;
  readonly operations: readonly Operation[];
}

/** The operations of one model, where they are known to be others than those of its channel; else null. */
export function modelOperationsOf({ capabilities }: Channel, model: string): readonly Operation[] | null {
  const { modelOperations, namedOperations = [] } = capabilities;
  return modelOperations.get(model) ?? namedOperations.find(({ part }) => model.includes(part))?.operations ?? null;
}

/** `null`: not known, so the client's format is requested. */
export function transcriptionFormatsOf({ capabilities }: Channel, model: string): readonly TranscriptFormat[] | null {
  return capabilities.transcriptionFormats.find(({ prefix }) => model.startsWith(prefix))?.formats ?? null;
}

/** How the voices that clients name are called by this channel. */
export interface Voices {
  /** The client's name to the upstream's. */
  readonly names: ReadonlyMap<string, string>;
  /** What happens to a name that is on neither side of the list: it is sent unchanged, refused, or replaced by `fallback`. */
  readonly unknown: "pass" | "refuse" | "replace";
  readonly fallback: string | null;
}

/** Where a compatible upstream differs from the OpenAI API, as data that the dialect reads. */
export interface Quirks {
  /** Accepts `stream_options`; where it does not, streamed usage is estimated. */
  readonly streamOptions: boolean;
  /** What it calls the bound on output tokens in requests that we write. */
  readonly tokenBound: "max_tokens" | "max_completion_tokens";
  /** Accepts the reasoning of earlier answers as `reasoning_content`; some models need it in a tool loop. */
  readonly reasoningHistory: boolean;
  /** With tools, it refuses an answer of its own without `reasoning_content`. An empty one will do. */
  readonly needsReasoning?: true;
  /** Takes a list in a form as a repeated field of the plain name; most know only `name[]`. */
  readonly plainLists?: true;
  /** Gives the times of a transcript only where the form lists their granularities, whatever the format. */
  readonly timesOnRequest?: true;
  /** Knows the role `developer`. Most know only `system`, which means the same, and reject the other. */
  readonly developerRole: boolean;
  /** The APIs that it has for chats, by the models' upstream names. The first rule that matches counts; without one, `chat`. */
  readonly chatApis: readonly ModelApi[];
}

/** A `*` in the pattern stands for any run of characters. */
export interface ModelApi {
  readonly models: string;
  readonly api: ChatApi;
}

/** Chat completions, the Responses API, or both of them. */
export type ChatApi = (typeof chatApis)[number];
export const chatApis = ["chat", "responses", "both"] as const;

export function voicesOf({ voices, modelVoices }: Channel, model: string): Voices {
  return modelVoices.get(model) ?? voices;
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
  /** The ids of the scopes that its health depends on. */
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
  /** The number of candidates in all tiers. */
  readonly size: number;
}

/**
 * Computes a fact about a route once and keeps it as long as the route, which never changes: a route may have ten thousand candidates,
 * and a call must not look at all of them.
 */
export function oncePerRoute<Fact>(compute: (route: Route) => Fact): (route: Route) => Fact {
  const known = new WeakMap<Route, { readonly fact: Fact }>();
  return (route) => {
    let found = known.get(route);
    if (found === undefined) known.set(route, (found = { fact: compute(route) }));
    return found.fact;
  };
}

/** The prefix of a deployment's scope id. */
export const deploymentScope = "deployment ";

export function candidatesOf(deployment: Deployment): readonly Candidate[] {
  const { channel } = deployment;
  return channel.credentials.map((credential) => ({
    deployment,
    credential,
    weight: channel.weight / channel.credentials.length,
    scopes: {
      host: `host ${channel.address.host}`,
      credential: `credential ${credential}`,
      deployment: `${deploymentScope}${deployment.id}`,
      quota: channel.quota === null ? null : `quota ${channel.quota}`,
    },
  }));
}

/** A model that runs on this machine, in a process of the gateway. */
export interface LocalModel {
  /** What clients call it, such as `embedded/whisper-base`. */
  readonly id: string;
  /** What its engine calls it. */
  readonly upstream: string;
  readonly operation: Operation;
  /** What it is, and how good it is. */
  readonly description: string;
  /** Its voices, the default first. */
  readonly voices?: readonly string[];
}
