import type { Demand } from "../limits/limits.ts";
import type { CallRequest } from "../operations/call-request.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import { secondsMax } from "../media/audio.ts";
import type { MeteredUsage } from "../operations/usage.ts";
import { costNanos, isByTokens } from "./cost.ts";
import { highestRates } from "./highest-rates.ts";
import type { PriceRates } from "./price.ts";
import { estimateTokens } from "./token-estimate.ts";

export interface DemandOptions {
  /** How long answers of the model usually are; null where none was seen. */
  readonly outputAverage: number | null;
  /** The most output tokens that whoever serves the call lets a client ask for. One that asks for no number is not held to it. */
  readonly ceiling: number | null;
  /** Money is reserved for the longest answer that was asked for, not for a usual one. That is the rule unless this is false. */
  readonly hard?: boolean;
}

/** What a call is expected to take of its key's limits, and what it may cost: reserved before it is made. Tokens are what is usual. */
export function demandAt(nanos: number | null, ask: CallRequest, options: DemandOptions): Demand {
  return truthOf(expectedUse(ask, null, options, false), nanos);
}

/**
 * The most that a call may cost at any of those who could serve it, by the rates of each; null where one of them is not
 * known. Which one that is depends on the call: one has a dear prompt, another a dear answer.
 */
export function highestCost(
  ask: CallRequest,
  ratesOfAll: Iterable<PriceRates | null>,
  options: Omit<DemandOptions, "hard">,
): number | null {
  let most: number | null = null;
  for (const rates of ratesOfAll) {
    if (rates === null) return null;
    const { nanos } = costNanos(highestRates(rates, ask), expectedUse(ask, rates, options, true));
    if (nanos === null) return null;
    most = Math.max(most ?? 0, nanos);
  }
  return most;
}

/** What a call took of its key's limits. What nobody counted took nothing. */
export function truthOf(metered: MeteredUsage | null, nanos: number | null): Demand {
  return {
    tokens: amount(metered?.promptTokens, tokensMax) + amount(metered?.completionTokens, tokensMax),
    audioSeconds: amount(metered?.audioSeconds, secondsMax),
    characters: amount(metered?.characters, tokensMax),
    nanos,
  };
}

/** What a call is expected to consume, in the units it is billed in: also what it is billed by where an upstream tells nothing. */
export function expectedUse(ask: CallRequest, rates: PriceRates | null, options: DemandOptions, hard = options.hard ?? true): MeteredUsage {
  const byTokens = rates !== null && isByTokens(rates);
  switch (ask.operation) {
    case "chat":
      return use(ask.promptTokensEstimate, choicesOf(ask) * outputOf(ask, options, hard));
    case "transcription": {
      const { seconds, file } = ask;
      const isTold = seconds !== null && seconds >= 0;
      const audioSeconds = amount(isTold ? seconds : file.content.length / audioBytesPerSecond, secondsMax);
      if (!byTokens) return { ...use(0, 0), audioSeconds };
      return { ...use(audioSeconds * heardTokensPerSecond, audioSeconds * saidTokensPerSecond), audioSeconds };
    }
    case "speech": {
      const characters = amount(ask.characters, tokensMax);
      if (!byTokens) return { ...use(0, 0), characters };
      return { ...use(estimateTokens(ask.input), characters * spokenTokensPerCharacter), characters };
    }
  }
}

/** Without a figure of the client's own and without experience. */
const usualOutputTokens = 1024;
/** For which money is set aside at least where the client says nothing. */
const unaskedOutputTokens = 4096;
/** No model says more at once, whatever a client asks for. */
const outputTokensMax = 1_000_000;
/** The bound of the OpenAI API. */
const choicesMax = 128;
const tokensMax = 1e9;

/** 16 kbit/s, about the least that speech is recorded with: a file that does not tell its length is rather taken for too long. */
const audioBytesPerSecond = 2000;
/** Models that bill sound as tokens hear ten to seventeen a second, and people say three to four tokens a second. */
const heardTokensPerSecond = 20;
const saidTokensPerSecond = 5;
/** About fifteen characters are spoken in a second, which takes some twenty tokens of sound. */
const spokenTokensPerCharacter = 2;

function outputOf(ask: ChatRequest, { outputAverage, ceiling }: DemandOptions, hard: boolean): number {
  const asked = askedOutput(ask);
  const average = outputAverage !== null && outputAverage >= 0 ? outputAverage : null;
  if (asked === null) {
    // An answer that may have any length must not be taken for a short one because others were.
    const unasked = hard ? Math.max(average ?? 0, unaskedOutputTokens) : (average ?? usualOutputTokens);
    return Math.min(unasked, outputTokensMax);
  }
  const output = hard ? asked : Math.min(asked, average ?? asked);
  const most = ceiling !== null && ceiling > 0 ? Math.min(ceiling, outputTokensMax) : outputTokensMax;
  return Math.min(output, most);
}

/** Where both names are used, the larger; what cannot be a length was not asked for. */
function askedOutput({ maxTokens, maxCompletionTokens }: ChatRequest): number | null {
  const most = Math.max(length(maxTokens), length(maxCompletionTokens));
  return most > 0 ? most : null;
}

function length(asked: number | null): number {
  return asked !== null && asked > 0 ? asked : 0;
}

function choicesOf({ choices }: ChatRequest): number {
  return choices >= 1 ? Math.min(Math.ceil(choices), choicesMax) : 1;
}

function use(promptTokens: number, completionTokens: number): MeteredUsage {
  return {
    promptTokens: Math.ceil(amount(promptTokens, tokensMax)),
    completionTokens: Math.ceil(amount(completionTokens, tokensMax)),
    cachedTokens: null,
    reasoningTokens: null,
    estimated: true,
  };
}

/** Neither negative nor more than can be, and zero where it is not known. */
function amount(figure: number | null | undefined, max: number): number {
  return figure != null && figure >= 0 ? Math.min(figure, max) : 0;
}
