import type { AudioFormat } from "../media/audio.ts";
import type { Operation } from "../operations/operation.ts";
import type { TranscriptFormat } from "../operations/transcription/transcript.ts";

/** A way to an upstream: an address, credentials and what is known of it. Holds no secret: credentials are names. */
export interface Channel {
  readonly name: string;
  /** The preset it was made from: what its prices are looked up by. */
  readonly provider: string | null;
  /** Names that keys can be bound to, beside its own. */
  readonly tags: readonly string[];
  /** `public`: made at run time, so each connection of it is checked to go to the public internet and nowhere else. */
  readonly reach: "any" | "public";
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
  readonly transcriptionPath: string;
  readonly translationPath: string;
  readonly speechPath: string;
  readonly modelsPath: string | null;
  /** With leading `?`, or empty. */
  readonly query: string;
  /** The header that carries a credential, and what stands before it there, such as `Bearer `. */
  readonly authHeader: string;
  readonly authPrefix: string;
}

/** It is a model of this machine, in a process of our own. */
export function runsHere({ baseUrl }: Pick<Address, "baseUrl">): boolean {
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
  /** Between two data events of a stream: heartbeats must not keep a dead generation alive. */
  readonly progressMs: number;
  readonly totalMs: number;
}

export interface Capabilities {
  /** Continues an assistant message that ends the conversation. */
  readonly prefill: boolean;
  readonly contextTokens: number | null;
  readonly operations: readonly Operation[];
  /** What a single model can do, where that is less than its channel. */
  readonly modelOperations: ReadonlyMap<string, readonly Operation[]>;
  /** What is worth saying of a model in the list of models, by its upstream name. */
  readonly modelDescriptions: ReadonlyMap<string, string>;
  /** The formats it answers in, by the beginning of a model's name: the first that fits counts. */
  readonly transcriptionFormats: readonly ModelFormats[];
  /** `null`: not known, so it is asked for what the client asks for. */
  readonly speechFormats: readonly AudioFormat[] | null;
  /** The beginnings of the names of those models that can send speech as events; `null`: not known, so they are asked to. */
  readonly speechEvents: readonly string[] | null;
  /** It translates recordings into English. */
  readonly translation: boolean;
  /** It sends a transcript as it is made; where it does not, the whole comes as one delta. */
  readonly transcriptionStream: boolean;
  /** The largest file it takes, in bytes and in seconds; `null`: not known. */
  readonly audioBytesMax: number | null;
  readonly audioSecondsMax: number | null;
  /** The longest text it speaks, in characters; `null`: not known. */
  readonly inputCharactersMax: number | null;
  /** What is above these is cut, served in parts and put together. */
  readonly splitsAudio: boolean;
  readonly splitsInput: boolean;
}

export interface ModelFormats {
  readonly prefix: string;
  readonly formats: readonly TranscriptFormat[];
}

/** `null`: not known, so it is asked for what the client asks for. */
export function transcriptionFormatsOf({ capabilities }: Channel, model: string): readonly TranscriptFormat[] | null {
  return capabilities.transcriptionFormats.find(({ prefix }) => model.startsWith(prefix))?.formats ?? null;
}

/** How this channel calls the voices that clients ask for. */
export interface Voices {
  /** The client's name to the upstream's. */
  readonly names: ReadonlyMap<string, string>;
  /** What happens to a name that is on neither side of the list: it is sent as it is, refused, or replaced by `fallback`. */
  readonly unknown: "pass" | "refuse" | "replace";
  readonly fallback: string | null;
}

/** Where a compatible upstream differs from the OpenAI API, as data that the dialect reads. */
export interface Quirks {
  /** Accepts `stream_options`; where it does not, streamed usage is estimated. */
  readonly streamOptions: boolean;
}

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

/** What the id of a deployment's scope begins with. */
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

/** A model that runs on this machine, in a process of our own. */
export interface LocalModel {
  /** What clients call it, such as `embedded/whisper-base`. */
  readonly id: string;
  /** What its engine calls it. */
  readonly upstream: string;
  readonly operation: Operation;
  /** What it is and what to expect of it, honestly. */
  readonly description: string;
  /** The voices it speaks with, the usual one first. */
  readonly voices?: readonly string[];
}
