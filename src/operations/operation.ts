/** What a client can ask for. Each operation has its own request, answer and codecs. */
export type Operation = "chat" | "transcription" | "speech" | PassthroughOperation;

/** The operations whose requests and answers are passed on as they are, with the model renamed. */
export type PassthroughOperation = "embedding" | "completion" | "moderation" | "image" | "rerank";

/**
 * What sets one operation apart from another, as far as it is data. Code that differs from operation to operation reads this table instead
 * of comparing names. What needs code of its own (reading the request, encoding it, estimating its use, splitting it) has one dispatch
 * each, on the type of the request.
 */
export interface OperationSpec {
  /** The name in messages to clients. */
  readonly displayName: string;
  /** What it is metered in: the figure that an admission and a receipt have for every call of this operation. */
  readonly unit: "tokens" | "audioSeconds" | "characters" | "calls";
  /** The figures that only the upstream knows. A receipt without one of them is an estimate. */
  readonly reportedUsage: readonly ("promptTokens" | "completionTokens" | "audioSeconds")[];
  /** The longest answer that is not streamed, in bytes. */
  readonly answerBytesMax: number;
  /** Its request carries a file. It is sent from the disk, and counts as an upload when the gateway is short of memory. */
  readonly uploads: boolean;
  /**
   * A stream of it can begin before all input has been processed, so the time limit for the first content applies to a streamed call. The
   * first word of a transcript may come after all of the audio has been processed.
   */
  readonly startsEarly: boolean;
  /** Headers may be sent before the first output of a stream. In a stream of audio, an error after them could not be reported. */
  readonly earlyHeaders: boolean;
  /** A complete stream of it says why it ended. */
  readonly hasFinishReason: boolean;
  /** The key setting and the channel capability that allow an input that is too large to be split. Null if it is never split. */
  readonly split: { readonly setting: "audio" | "input"; readonly capability: "splitsAudio" | "splitsInput" } | null;
  /** Its input may contain audio tokens, which have a price of their own. */
  readonly audioInput: boolean;
  /** The same for its output. `maybe`: it depends on the request. */
  readonly audioOutput: boolean | "maybe";
}

const usualAnswerBytes = 16 * 1024 * 1024;
/** A full batch of embeddings, or several large images. */
const largeAnswerBytes = 64 * 1024 * 1024;

/** A plain request and one answer, without audio. */
const passedWhole = {
  answerBytesMax: usualAnswerBytes,
  uploads: false,
  startsEarly: false,
  earlyHeaders: false,
  hasFinishReason: false,
  split: null,
  audioInput: false,
  audioOutput: false,
} as const;

export const operationSpecs: { readonly [O in Operation]: OperationSpec } = {
  chat: {
    displayName: "chat completions",
    unit: "tokens",
    reportedUsage: ["promptTokens", "completionTokens"],
    answerBytesMax: usualAnswerBytes,
    uploads: false,
    startsEarly: true,
    earlyHeaders: true,
    hasFinishReason: true,
    split: null,
    audioInput: true,
    audioOutput: "maybe",
  },
  transcription: {
    displayName: "transcriptions",
    unit: "audioSeconds",
    reportedUsage: ["audioSeconds"],
    answerBytesMax: usualAnswerBytes,
    uploads: true,
    startsEarly: false,
    earlyHeaders: true,
    hasFinishReason: false,
    split: { setting: "audio", capability: "splitsAudio" },
    audioInput: true,
    audioOutput: false,
  },
  speech: {
    displayName: "speech",
    unit: "characters",
    // The gateway counts the characters of the text itself.
    reportedUsage: [],
    answerBytesMax: usualAnswerBytes,
    uploads: false,
    startsEarly: true,
    earlyHeaders: false,
    hasFinishReason: false,
    split: { setting: "input", capability: "splitsInput" },
    audioInput: false,
    audioOutput: true,
  },
  embedding: {
    displayName: "embeddings",
    unit: "tokens",
    reportedUsage: ["promptTokens"],
    ...passedWhole,
    answerBytesMax: largeAnswerBytes,
  },
  completion: {
    displayName: "completions",
    unit: "tokens",
    reportedUsage: ["promptTokens", "completionTokens"],
    ...passedWhole,
    startsEarly: true,
    earlyHeaders: true,
    hasFinishReason: true,
  },
  moderation: {
    displayName: "moderations",
    unit: "tokens",
    reportedUsage: ["promptTokens"],
    ...passedWhole,
  },
  image: {
    displayName: "images",
    // Some models report tokens, others nothing. What the gateway counts are the images of an answer.
    unit: "calls",
    reportedUsage: [],
    ...passedWhole,
    answerBytesMax: largeAnswerBytes,
    earlyHeaders: true,
  },
  rerank: {
    displayName: "rerankings",
    unit: "tokens",
    reportedUsage: ["promptTokens"],
    ...passedWhole,
  },
};

export const operations = Object.keys(operationSpecs) as readonly Operation[];

/**
 * Which of a channel's operations a model is for, as far as its name tells: providers with many operations list models that have one each,
 * and do not say which. `isKnown` says that the provider is a known one, whose names can be relied on; elsewhere a name that tells nothing
 * leaves every operation possible.
 */
export function operationsNamed(model: string, offered: readonly Operation[], isKnown: boolean): readonly Operation[] {
  if (offered.length <= 1) return offered;
  const named = hints.find(([hint]) => hint.test(model))?.[1] ?? (isKnown ? "chat" : null);
  return named !== null && offered.includes(named) ? [named] : offered;
}

/** The first that matches counts. */
const hints: readonly (readonly [hint: RegExp, operation: Operation])[] = [
  [/whisper|transcri|scribe|(?:^|[-_/.])(?:stt|asr)(?:$|[-_/.\d])|speech-to-text/i, "transcription"],
  [/(?:^|[-_/.])tts(?:$|[-_/.\d])|text-to-speech|kokoro|orpheus/i, "speech"],
  [/rerank/i, "rerank"],
  [/moderation/i, "moderation"],
  [/dall-e|stable-diffusion|(?:^|[-_/.])(?:image|imagen|flux|sdxl)(?:$|[-_/.\d])/i, "image"],
  [/turbo-instruct|davinci-002|babbage-002/i, "completion"],
  [/embed|(?:^|[-_/.])(?:bge|gte|e5|minilm)(?:$|[-_/.\d])/i, "embedding"],
];
