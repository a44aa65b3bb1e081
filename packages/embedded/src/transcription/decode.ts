import { deflateSync } from "node:zlib";
import type { Tensor } from "../onnx/tensor.ts";
import type { CacheBuffers, Network, PromptResult } from "./network.ts";
import { logSum, maximum, suppressTokens } from "./rules.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** The decoded text of one window. */
export interface Utterance {
  /** Text and timestamp tokens, without the end-of-text token. */
  readonly tokens: readonly number[];
  readonly temperature: number;
  readonly averageLogProbability: number;
  readonly compressionRatio: number;
  readonly noSpeechProbability: number;
}

export interface DecoderContext {
  readonly network: Network;
  readonly vocabulary: Vocabulary;
  readonly buffers: CacheBuffers;
  readonly dice: () => number;
  /** Throws if the work was cancelled. */
  readonly throwIfStopped: () => void;
}

/** Half of the decoder's positions are for the output, the other half for the prompt. */
export const outputTokensMax = 224;
const positionsMax = 448;

const compressionRatioMax = 2.4;
/** If the text so far compresses this well it is a loop, and decoding stops early. */
const loopCompressionRatio = 3;
const loopTokens = 32;
const averageLogProbabilityMin = -1;
const noSpeechProbabilityMax = 0.6;
const temperatureStep = 0.2;

/**
 * Decodes a window. A text that repeats itself (a high compression ratio) or has a low probability is decoded again with a higher
 * temperature. If all attempts fail, the best one is used.
 */
export async function decode(context: DecoderContext, encoded: Tensor, prompt: readonly number[], temperature: number): Promise<Utterance> {
  const promptResult = await context.network.read(encoded, prompt);
  const noSpeechProbability = probability(
    promptResult.scores(prompt.indexOf(context.vocabulary.startOfTranscript)),
    context.vocabulary.noSpeech,
  );
  let best: Utterance | null = null;
  for (let current = Math.max(0, temperature); current < 1 + temperatureStep / 2; current += temperatureStep) {
    const attempt = {
      ...(await decodeOnce(context, encoded, promptResult, prompt.length, Math.round(current * 100) / 100)),
      noSpeechProbability,
    };
    if (best === null || quality(attempt) > quality(best)) best = attempt;
    if (isGood(attempt) || isNoSpeech(attempt)) return attempt;
  }
  // A temperature above 1 was requested, and is used as it is.
  return best ?? { ...(await decodeOnce(context, encoded, promptResult, prompt.length, temperature)), noSpeechProbability };
}

/** Whether the window contains no speech: the model says so, and its text has a low probability. */
export function isNoSpeech(utterance: Utterance): boolean {
  return utterance.noSpeechProbability > noSpeechProbabilityMax && utterance.averageLogProbability < averageLogProbabilityMin;
}

function isGood(utterance: Utterance): boolean {
  return utterance.compressionRatio <= compressionRatioMax && utterance.averageLogProbability >= averageLogProbabilityMin;
}

/** A loop is worse than an improbable text. */
function quality(utterance: Utterance): number {
  return utterance.averageLogProbability - (utterance.compressionRatio > compressionRatioMax ? 1000 : 0);
}

async function decodeOnce(
  context: DecoderContext,
  encoded: Tensor,
  promptResult: PromptResult,
  promptLength: number,
  temperature: number,
): Promise<Omit<Utterance, "noSpeechProbability">> {
  const { network, vocabulary, buffers, dice, throwIfStopped } = context;
  const tokens: number[] = [];
  // The first scores are used by all attempts, so that they are copied. Later ones belong to the buffers.
  let scores: Float32Array = promptResult.scores(promptLength - 1).slice();
  let cache = promptResult.cache;
  let logProbability = 0;
  const lengthMax = Math.min(outputTokensMax, positionsMax - promptLength);
  while (tokens.length < lengthMax) {
    throwIfStopped();
    suppressTokens(scores, tokens, vocabulary);
    const token = temperature > 0 ? sampled(scores, temperature, dice()) : scores.indexOf(maximum(scores, 0, scores.length));
    logProbability += scores[token]! - logSum(scores, 0, scores.length);
    if (token === vocabulary.endOfText) break;
    tokens.push(token);
    if (tokens.length % loopTokens === 0 && compressionRatio(vocabulary.text(tokens)) > loopCompressionRatio) break;
    ({ scores, cache } = await network.step(encoded, cache, token, buffers));
  }
  return {
    tokens,
    temperature,
    averageLogProbability: logProbability / (tokens.length + 1),
    compressionRatio: compressionRatio(vocabulary.text(tokens)),
  };
}

function sampled(scores: Float32Array, temperature: number, dice: number): number {
  const best = maximum(scores, 0, scores.length);
  let total = 0;
  for (const score of scores) total += Math.exp((score - best) / temperature);
  let rest = dice * total;
  for (let at = 0; at < scores.length; at++) {
    rest -= Math.exp((scores[at]! - best) / temperature);
    if (rest < 0) return at;
  }
  return scores.indexOf(best);
}

export function probability(scores: Float32Array, token: number): number {
  return Math.exp(scores[token]! - logSum(scores, 0, scores.length));
}

function compressionRatio(text: string): number {
  const bytes = Buffer.from(text.trim());
  return bytes.length === 0 ? 0 : bytes.length / deflateSync(bytes).length;
}
