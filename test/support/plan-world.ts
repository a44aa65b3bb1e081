import { defaultPaths } from "../../src/dialects/presets.ts";
import { type Candidate, candidatesOf, type Channel, type Route } from "../../src/channels/channel.ts";
import type { Health } from "../../src/channels/health.ts";
import { LastAsked } from "../../src/channels/last-asked.ts";
import type { Load } from "../../src/channels/load.ts";
import type { PlanInput } from "../../src/routing/plan.ts";

/** Builders for the tests of routing: channels, routes and the tables a plan reads. */

/** How calls are routed unless a test says otherwise. */
export const policy = {
  attemptsMax: 3,
  hedgeAfterMs: null,
  rescue: "error",
  streamDeadlineMs: 120_000,
  wholeDeadlineMs: 600_000,
  waitMs: 0,
} as const;

export interface ChannelFacts extends Partial<Omit<Channel, "capabilities">> {
  readonly host?: string;
  readonly contextTokens?: number;
}

export function channel(name: string, facts: ChannelFacts = {}): Channel {
  const { host = `${name}.test`, contextTokens = null, ...rest } = facts;
  const credentials = facts.credentials ?? [`${name}-key`];
  return {
    name,
    provider: null,
    tags: [],
    reach: "any",
    dialect: "openai",
    address: {
      baseUrl: `https://${host}/v1`,
      host,
      ...defaultPaths,
      modelsPath: "/models",
      query: "",
      authHeader: "authorization",
      authPrefix: "Bearer ",
    },
    credentials,
    pooled: credentials.length > 1,
    tier: 1,
    weight: 1,
    maxTokensCeiling: null,
    timeouts: {
      connectMs: 5_000,
      firstByteMs: 300_000,
      firstContentMs: 60_000,
      idleMs: 120_000,
      progressMs: 300_000,
      totalMs: 1_800_000,
    },
    quota: null,
    concurrencyMax: 512,
    capabilities: {
      prefill: false,
      contextTokens,
      operations: ["chat"],
      modelOperations: new Map(),
      modelDescriptions: new Map(),
      transcriptionFormats: [],
      speechFormats: null,
      speechEvents: null,
      translation: true,
      transcriptionStream: true,
      audioBytesMax: null,
      audioSecondsMax: null,
      inputCharactersMax: null,
      splitsAudio: false,
      splitsInput: false,
    },
    voices: { names: new Map(), unknown: "pass", fallback: null },
    modelVoices: new Map(),
    quirks: { streamOptions: true, tokenBound: "max_tokens", reasoningHistory: true, developerRole: false, chatApis: [] },
    headers: {},
    forwardHeaders: [],
    proxy: null,
    ...rest,
  };
}

export function candidates(name: string, facts: ChannelFacts = {}): readonly Candidate[] {
  return candidatesOf({ id: `${name}/m`, channel: channel(name, facts), model: "m" });
}

export function candidate(name: string, facts: ChannelFacts = {}): Candidate {
  return candidates(name, facts)[0]!;
}

export function route(...tiers: readonly (readonly Candidate[])[]): Route {
  return { model: "m", tiers, size: tiers.flat().length };
}

/** A generator of dice that repeats itself for the same seed. */
export function diceOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export interface Tables {
  readonly health: Map<string, Health>;
  readonly load: Map<string, Load>;
}

export function tables(): Tables {
  return { health: new Map(), load: new Map() };
}

export function planInput(of: Route, { health, load }: Tables, facts: Partial<PlanInput> = {}): PlanInput {
  return {
    route: of,
    health: (scope) => health.get(scope),
    isWell: () => false,
    load: ({ deployment }) => load.get(deployment.id),
    channelInFlight: () => 0,
    throttle: undefined,
    lastAsked: new LastAsked(new Map()),
    waited: false,
    promptTokensEstimate: 100,
    remainingMs: 120_000,
    nowMs: 1_000_000,
    dice: diceOf(1),
    ...facts,
  };
}
