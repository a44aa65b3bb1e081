import type { Demand } from "../limits/limits.ts";
import type { CallRequest } from "../operations/call-request.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import { secondsMax } from "../media/audio.ts";
import { withSearches, type MeteredUsage } from "../operations/usage.ts";
import { costNanos, isByTokens } from "./cost.ts";
import { highestRates } from "./highest-rates.ts";
import type { PriceRates } from "./price.ts";
import { estimateTokens } from "./token-estimate.ts";

export interface DemandOptions {
  /** The average length of the model's answers; null if none was seen. */
  readonly outputAverage: number | null;
  /** The most output tokens that a client may request of the channels of the call. It applies only if the client requests a number. */
  readonly ceiling: number | null;
  /** Money is reserved for the longest answer that the request allows (the default), or for a usual one (false). */
  readonly hard?: boolean;
}

/** What is reserved for a call before it is made: the usual number of tokens, and what the call may cost. */
export function expectedDemand(nanos: number | null, request: CallRequest, options: DemandOptions): Demand {
  return actualDemand(expectedUse(request, null, options, false), nanos);
}

/**
 * The most that a call may cost, over the rates of all candidates; null if a rate is not known. Which candidate is the most
 * expensive depends on the call: one may have an expensive prompt, another an expensive answer.
 */
export function highestCost(
  request: CallRequest,
  ratesOfAll: Iterable<PriceRates | null>,
  options: Omit<DemandOptions, "hard">,
): number | null {
  let most: number | null = null;
  for (const rates of ratesOfAll) {
    if (rates === null) return null;
    const { nanos } = costNanos(highestRates(rates, request), expectedUse(request, rates, options, true));
    if (nanos === null) return null;
    most = Math.max(most ?? 0, nanos);
  }
  return most;
}

/** What a call really used of its key's limits. A figure that was not reported counts as zero. */
export function actualDemand(metered: MeteredUsage | null, nanos: number | null): Demand {
  return {
    tokens: amount(metered?.promptTokens, tokensMax) + amount(metered?.completionTokens, tokensMax),
    audioSeconds: amount(metered?.audioSeconds, secondsMax),
    characters: amount(metered?.characters, tokensMax),
    nanos,
  };
}

/** What a call is expected to use, in the units it is billed in. It is also billed by this if the upstream reports nothing. */
export function expectedUse(
  request: CallRequest,
  rates: PriceRates | null,
  options: DemandOptions,
  hard = options.hard ?? true,
): MeteredUsage {
  const byTokens = rates !== null && isByTokens(rates);
  switch (request.operation) {
    case "chat":
      return withSearches(
        use(request.promptTokensEstimate, choicesOf(request) * outputOf(request, options, hard)),
        request.hostedTools && isSearchPriced(rates) ? usualSearches : 0,
      );
    case "transcription": {
      const { seconds, file } = request;
      const isKnown = seconds !== null && seconds >= 0;
      const audioSeconds = amount(isKnown ? seconds : file.content.length / audioBytesPerSecond, secondsMax);
      if (!byTokens) return { ...use(0, 0), audioSeconds };
      return { ...use(audioSeconds * inputTokensPerSecond, audioSeconds * transcriptTokensPerSecond), audioSeconds };
    }
    case "speech": {
      const characters = amount(request.characters, tokensMax);
      if (!byTokens) return { ...use(0, 0), characters };
      return { ...use(estimateTokens(request.input), characters * speechTokensPerCharacter), characters };
    }
    case "completion":
      // One for each prompt of a batch, of which there is no largest number.
      return use(request.promptTokensEstimate, request.choices * outputOf({ ...request, maxCompletionTokens: null }, options, hard));
    case "image": {
      const images = request.choices;
      if (!byTokens) return { ...use(0, 0), images };
      return { ...use(request.promptTokensEstimate, images * imageTokens), images };
    }
    case "embedding":
    case "moderation":
    case "rerank":
      return use(request.promptTokensEstimate, 0);
  }
}

/** Without a rate nothing is reserved, because the cost of the whole call would be unknown. */
function isSearchPriced(rates: PriceRates | null): boolean {
  return (rates?.webSearch ?? rates?.searchedCall) !== undefined;
}

/** A call whose tools run at the upstream rarely searches more often. */
const usualSearches = 5;
/** Assumed if the client gives no length and no answer was seen. */
const usualOutputTokens = 1024;
/** If the client gives no length, money is reserved for at least this much. */
const unlimitedOutputTokens = 4096;
/** No model answers with more, whatever a client requests. */
const outputTokensMax = 1_000_000;
/** The limit of the OpenAI API for `n`. */
const choicesMax = 128;
const tokensMax = 1e9;

/** 16 kbit/s, about the lowest rate for speech. If the length of a file is unknown, it is rather estimated too high. */
const audioBytesPerSecond = 2000;
/** Models that bill audio as tokens count ten to seventeen a second, and speech has three to four tokens of text a second. */
const inputTokensPerSecond = 20;
const transcriptTokensPerSecond = 5;
/** A second of speech has about fifteen characters of text and twenty tokens of audio. */
const speechTokensPerCharacter = 2;
/** A large image of high quality, where images are billed as tokens. */
const imageTokens = 6500;

function outputOf(request: OutputBounds, { outputAverage, ceiling }: DemandOptions, hard: boolean): number {
  const requested = requestedOutput(request);
  const average = outputAverage !== null && outputAverage >= 0 ? outputAverage : null;
  if (requested === null) {
    // This answer may be long even if others were short.
    const unlimited = hard ? Math.max(average ?? 0, unlimitedOutputTokens) : (average ?? usualOutputTokens);
    return Math.min(unlimited, outputTokensMax);
  }
  const output = hard ? requested : Math.min(requested, average ?? requested);
  const most = ceiling !== null && ceiling > 0 ? Math.min(ceiling, outputTokensMax) : outputTokensMax;
  return Math.min(output, most);
}

type OutputBounds = Pick<ChatRequest, "maxTokens" | "maxCompletionTokens">;

/** The larger of the two fields; null if neither is a length. */
function requestedOutput({ maxTokens, maxCompletionTokens }: OutputBounds): number | null {
  const most = Math.max(length(maxTokens), length(maxCompletionTokens));
  return most > 0 ? most : null;
}

function length(requested: number | null): number {
  return requested !== null && requested > 0 ? requested : 0;
}

function choicesOf({ choices }: { readonly choices: number }): number {
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

/** Limits a figure to a sensible range; zero if it is not known. */
function amount(figure: number | null | undefined, max: number): number {
  return figure != null && figure >= 0 ? Math.min(figure, max) : 0;
}
