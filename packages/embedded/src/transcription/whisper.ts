import { tokenTimes } from "./alignment.ts";
import { decode, isNoSpeech, type DecoderContext, type Utterance } from "./decode.ts";
import { framesPerSecond, hopSamples, mel, sampleRate, windowFrames, nextAudible } from "./mel.ts";
import { loadNetwork } from "./network.ts";
import { passages, type Passage } from "./passages.ts";
import { logSum } from "./rules.ts";
import { loadVocabulary } from "./vocabulary.ts";
import { timedWords, wordTokens, type WhisperWord } from "./words.ts";

export { languageCode, languages } from "./languages.ts";
export { defaultWeights } from "./network.ts";
export type { WhisperWord } from "./words.ts";

/** Speech to text. Samples are mono, 16 kHz, from -1 to 1, of any length. */
export interface Whisper {
  /** Rejects with the signal's reason when it is aborted, and if Whisper does not support the language. */
  transcribe(samples: Float32Array, options: TranscribeOptions): Promise<WhisperResult>;
  /** Detected from the first audible window; English with probability 0 if there is none. */
  detectLanguage(samples: Float32Array): Promise<DetectedLanguage>;
  /** Stops running transcriptions and frees the weights. */
  close(): Promise<void>;
}

export interface DetectedLanguage {
  readonly language: string;
  readonly probability: number;
}

export interface TranscribeOptions {
  /** A code of `languages`; null to detect it. */
  readonly language: string | null;
  /** `translate` outputs English, whatever is spoken. */
  readonly task: "transcribe" | "translate";
  readonly words: boolean;
  /** Treated as preceding text: names and spellings to expect. Only its last tokens are used. */
  readonly prompt: string | null;
  readonly temperature: number;
  readonly signal?: AbortSignal;
  /** Called in order, as soon as a segment is final. */
  readonly onSegment?: (segment: WhisperSegment) => void;
  /** Called after each step, which is about a word. */
  readonly onStep?: () => void;
}

export interface WhisperResult {
  readonly text: string;
  readonly language: string;
  readonly duration: number;
  readonly segments: readonly WhisperSegment[];
  /** Timed by cross-attention, always within their segment; null if not requested. */
  readonly words: readonly WhisperWord[] | null;
}

export interface WhisperSegment {
  readonly id: number;
  /** Where the window of this segment begins, in frames of 10 ms. */
  readonly seek: number;
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly tokens: readonly number[];
  readonly temperature: number;
  readonly avg_logprob: number;
  readonly compression_ratio: number;
  readonly no_speech_prob: number;
}

const promptTokensMax = 223;
/** Only this much of a prompt is tokenized: its last 223 tokens are never longer. */
const promptCharactersMax = 4000;
/** Shorter windows contain no speech. */
const framesMin = 10;
/** What is left after the last word is often a breath, for which the model tends to invent text. */
const tailFramesMin = 30;
/** How much of the silence before the first sound of a window is kept. */
const leadFrames = 20;

export async function loadWhisper(directory: string, options: { readonly threads?: number } = {}): Promise<Whisper> {
  const vocabulary = await loadVocabulary(directory);
  const network = await loadNetwork(directory, options.threads ?? 2);
  const features = mel();
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();

  async function transcribe(samples: Float32Array, asked: TranscribeOptions): Promise<WhisperResult> {
    if (asked.language !== null && !vocabulary.languages.has(asked.language)) {
      throw new RangeError(`Whisper does not know the language ${JSON.stringify(asked.language)}.`);
    }
    const throwIfStopped = (): void => {
      closing.signal.throwIfAborted();
      asked.signal?.throwIfAborted();
      asked.onStep?.();
    };
    throwIfStopped();
    const context: DecoderContext = { network, vocabulary, buffers: network.buffers(), dice: Math.random, throwIfStopped };
    const previous = promptTokens(asked.prompt);
    const frames = Math.ceil(samples.length / hopSamples);
    const segments: WhisperSegment[] = [];
    const words: WhisperWord[] = [];
    let language = asked.language;
    let loudest = -Infinity;
    for (let seek = 0; frames - seek >= (seek === 0 ? framesMin : tailFramesMin);) {
      const audible = nextAudible(samples, seek);
      if (audible === null) break;
      seek = Math.max(seek, audible - leadFrames);
      const picture = features.window(samples, seek, loudest);
      loudest = picture.loudest;
      throwIfStopped();
      const encoded = await network.encode(picture.features);
      throwIfStopped();
      language ??= (await detectFrom(encoded)).language;
      throwIfStopped();
      const opening = [vocabulary.startOfTranscript, vocabulary.languages.get(language)!, vocabulary.tasks[asked.task]];
      const utterance = await decode(context, encoded, [...previous, ...opening], asked.temperature);
      const soundFrames = Math.min(windowFrames, frames - seek);
      if (isNoSpeech(utterance)) {
        seek += soundFrames;
        continue;
      }
      const cut = passages(utterance.tokens, soundFrames, vocabulary);
      const spoken = cut.passages.filter(
        (passage) => vocabulary.text(passage.tokens).trim() !== "" && passage.endFrame > passage.startFrame,
      );
      const fresh = spoken.map((passage, at) => segment(passage, utterance, seek, segments.length + at, samples.length));
      if (asked.words && fresh.length > 0) {
        const text = fresh.map(({ tokens }) => tokens.filter((token) => token < vocabulary.endOfText));
        const times = await tokenTimes(network, vocabulary, encoded, opening, text.flat(), soundFrames);
        throwIfStopped();
        words.push(...segmentWords(fresh, text, times, seek, asked.task === "translate" ? "en" : language));
      }
      segments.push(...fresh);
      for (const one of fresh) asked.onSegment?.(one);
      seek += cut.advanceFrames;
    }
    return {
      text: segments
        .map(({ text }) => text)
        .join("")
        .trim(),
      language: language ?? "en",
      duration: samples.length / sampleRate,
      segments,
      words: asked.words ? words : null,
    };
  }

  function promptTokens(prompt: string | null): readonly number[] {
    const text = prompt?.slice(-promptCharactersMax).trim() ?? "";
    if (text === "") return [];
    return [vocabulary.startOfPrevious, ...vocabulary.tokens(` ${text}`).slice(-promptTokensMax)];
  }

  function segment(passage: Passage, utterance: Utterance, seek: number, id: number, sampleCount: number): WhisperSegment {
    const duration = sampleCount / sampleRate;
    return {
      id,
      seek,
      start: Math.min(duration, (seek + passage.startFrame) / framesPerSecond),
      end: Math.min(duration, (seek + passage.endFrame) / framesPerSecond),
      text: vocabulary.text(passage.tokens),
      tokens: passage.tokens,
      temperature: utterance.temperature,
      avg_logprob: utterance.averageLogProbability,
      compression_ratio: utterance.compressionRatio,
      no_speech_prob: utterance.noSpeechProbability,
    };
  }

  function segmentWords(
    fresh: readonly WhisperSegment[],
    text: readonly (readonly number[])[],
    times: Float64Array,
    seek: number,
    language: string,
  ): readonly WhisperWord[] {
    let token = 0;
    return fresh.flatMap((one, at) => {
      const words = wordTokens(text[at]!, language, vocabulary).map((word) => {
        const start = seek / framesPerSecond + times[token]!;
        token += word.count;
        return { word: word.text.trim(), start, end: seek / framesPerSecond + times[token]! };
      });
      return timedWords(words, one.start, one.end).filter(({ word }) => word !== "");
    });
  }

  async function detectFrom(encoded: Awaited<ReturnType<typeof network.encode>>): Promise<DetectedLanguage> {
    const scores = (await network.read(encoded, [vocabulary.startOfTranscript])).scores(0);
    const ranked = [...vocabulary.languages].map(([language, token]) => ({ language, score: scores[token]! }));
    const best = ranked.reduce((leader, next) => (next.score > leader.score ? next : leader));
    const all = Float32Array.from(ranked, ({ score }) => score);
    return { language: best.language, probability: Math.exp(best.score - logSum(all, 0, all.length)) };
  }

  async function detectLanguage(samples: Float32Array): Promise<DetectedLanguage> {
    closing.signal.throwIfAborted();
    const audible = nextAudible(samples, 0);
    if (audible === null) return { language: "en", probability: 0 };
    const picture = features.window(samples, Math.max(0, audible - leadFrames), -Infinity);
    return detectFrom(await network.encode(picture.features));
  }

  /** The weights must not be freed while the model is running. */
  async function whileOpen<T>(work: Promise<T>): Promise<T> {
    running.add(work);
    try {
      return await work;
    } finally {
      running.delete(work);
    }
  }

  async function close(): Promise<void> {
    if (closing.signal.aborted) return;
    closing.abort(new Error("The transcription engine was closed."));
    await Promise.allSettled(running);
    network.close();
  }

  return {
    transcribe: async (samples, asked) => whileOpen(transcribe(samples, asked)),
    detectLanguage: async (samples) => whileOpen(detectLanguage(samples)),
    close,
  };
}
