import type { Address, Capabilities, Quirks, Voices } from "../channels/channel.ts";
import type { AuthKind } from "../channels/channel-auth.ts";
import type { Operation } from "../operations/operation.ts";
import { azureVoices } from "./azure-speech/voices.ts";
import { cartesiaVoices } from "./cartesia/voices.ts";
import { deepgramVoices } from "./deepgram/voices.ts";
import { elevenlabsVoices } from "./elevenlabs/voices.ts";
import { geminiVoices, starNames } from "./gemini/voices.ts";

/**
 * The defaults for a provider: its address, how it takes a key, what it supports. This is the only index of providers by name; all other
 * code reads these facts and never compares a provider's name.
 */
export interface Preset {
  readonly name: string;
  readonly dialect: string;
  /** May contain `{resource}` or `{region}`, which the channel then has to set. */
  readonly baseUrl: string;
  /** The address of single regions, where it is another one; absent if there is none. */
  readonly regions?: Readonly<Record<string, string>>;
  readonly paths: Paths;
  /** Null if the provider has no list of models: the channel then has to name them. */
  readonly modelsPath: string | null;
  /** A prefix of all names in that list, which clients do not write. */
  readonly listedPrefix: string;
  /** The names that only its models have, where it has no list: of the channels that take any name, those of this provider serve them. */
  readonly modelNames?: RegExp;
  /** The older API with an `api_version`; null if there is none. */
  readonly dated: DatedAddress | null;
  readonly authHeader: string;
  /** The text before the key in that header. */
  readonly authPrefix: string;
  /** How it authenticates unless the channel says otherwise; absent: with a key in that header. */
  readonly auth?: AuthKind;
  readonly needsKey: boolean;
  /** It runs on this machine, in engine processes of the gateway. */
  readonly local: boolean;
  readonly tier: number;
  readonly operations: readonly Operation[];
  /** The operations of single models that support fewer, by a part of their names. */
  readonly namedOperations: NonNullable<Capabilities["namedOperations"]>;
  readonly transcriptionFormats: Capabilities["transcriptionFormats"];
  readonly transcriptionStream: boolean;
  readonly translation: boolean;
  readonly speechFormats: Capabilities["speechFormats"];
  readonly speechEvents: Capabilities["speechEvents"];
  readonly inputCharactersMax: number | null;
  readonly audioBytesMax: number | null;
  readonly audioSecondsMax: number | null;
  readonly voices: Voices | null;
  readonly quirks: Quirks;
  /** Client headers that this provider understands, in lower case. */
  readonly forwardHeaders: readonly string[];
  readonly environment: PresetEnvironment;
  /** Other APIs of the provider, by the dialect that a channel chooses, and what is different for them. */
  readonly variants: Readonly<Record<string, Partial<Preset>>>;
  /** Worth knowing before use; for the documentation. */
  readonly remark: string | null;
  /** A known limitation, reported each time the preset is used. */
  readonly warning: string | null;
}

/** The path of each operation, relative to the base URL. */
export type Paths = Pick<
  Address,
  "chatPath" | "responsesPath" | "transcriptionPath" | "translationPath" | "speechPath" | "passthroughPaths"
>;

export const defaultPaths: Paths = {
  chatPath: "/chat/completions",
  responsesPath: "/responses",
  transcriptionPath: "/audio/transcriptions",
  translationPath: "/audio/translations",
  speechPath: "/audio/speech",
  passthroughPaths: {
    embedding: "/embeddings",
    completion: "/completions",
    moderation: "/moderations",
    image: "/images/generations",
    rerank: "/rerank",
  },
};

export interface DatedAddress {
  readonly baseUrl: string;
  readonly paths: Paths;
}

/** The environment variables that add a channel of this provider if there is no configuration file. */
export interface PresetEnvironment {
  /** Variables for its key; the first that is set counts. */
  readonly key: readonly string[];
  /** Variables for its address, to which `addressPath` is appended. */
  readonly address: readonly string[];
  readonly addressPath: string;
  readonly region: readonly string[];
  /** Variables that together are its key, joined by colons. */
  readonly keyParts?: readonly { readonly variable: string; readonly optional: boolean }[];
  /** How the channel authenticates with those, where it is not as usual. */
  readonly keyPartsAuth?: AuthKind;
  /** Variables with the path of a file that holds the key. */
  readonly keyFile?: readonly string[];
  readonly resource?: readonly string[];
  /** A second channel, for operations that only another API of the provider has. Its name ends with `suffix`. */
  readonly beside?: { readonly suffix: string; readonly dialect: string; readonly operations: readonly Operation[] };
}

/** What signatures and access tokens of the clouds are made for. */
export const cloudAuth = {
  awsService: "bedrock",
  googleScope: "https://www.googleapis.com/auth/cloud-platform",
  googleTokenUrl: "https://oauth2.googleapis.com/token",
  entraScope: "https://cognitiveservices.azure.com/.default",
};

/** The field in which a provider reports the usage of a stream in its last delta, even if it was not requested. */
export const usageExtension = "x_groq";

/** The dialect of most providers here, and of a channel that names only an address. */
export const defaultDialect = "openai";

/** How a compatible upstream behaves unless more is known. */
export const usualQuirks: Quirks = {
  streamOptions: true,
  tokenBound: "max_tokens",
  reasoningHistory: true,
  developerRole: false,
  chatApis: [],
};
/** The provider that the API comes from: it has newer names for the bound and a role, and refuses fields that it does not know. */
export const strictQuirks: Quirks = {
  ...usualQuirks,
  tokenBound: "max_completion_tokens",
  reasoningHistory: false,
  developerRole: true,
  chatApis: [{ models: "*", api: "both" }],
};

/** Models that have no chat completions, wherever they are served. They are of the provider that the two chat APIs come from. */
export const responsesOnly = /^(?:gpt-5(?:\.\d+)?-(?:codex|pro)|codex-|o\d-pro|o\d(?:-mini)?-deep-research|computer-use)/;
/** Models of that provider that refuse tools together with reasoning in chat completions: all after GPT-5.2. */
export const splitsReasoning = /^gpt-(?:5\.(?:[3-9]|\d\d)|[6-9]|1\d)(?:[.-]|$)/;
/** Models of that provider whose reasoning is open: they show all of it, encrypt nothing, and take it back as text. */
export const openReasoning = /^gpt-oss/;
/** Models of that provider that do not reason, and refuse to be asked for encrypted reasoning. */
export const withoutReasoning = /^(?:gpt-[34]|chatgpt-|gpt-\d+(?:\.\d+)?-chat)/;

/**
 * What the models of one maker take where many makers' models are served through one API, by a part of the model's name there. The
 * first that matches counts.
 */
export interface ModelFamily {
  readonly mark: string;
  /** How reasoning is requested; null: it cannot be. */
  readonly reasoning: "thinking" | "reasoning_effort" | "reasoning" | "reasoning_config" | null;
  /** It takes marks of what to cache. */
  readonly cachePoints: boolean;
  /** The settings that it refuses. */
  readonly refuses: readonly ("temperature" | "top_p" | "stop")[];
  /** It takes ids of calls that have nine letters and digits, and no others. */
  readonly shortIds: boolean;
}

export const unknownFamily: ModelFamily = { mark: "", reasoning: null, cachePoints: false, refuses: [], shortIds: false };

export const modelFamilies: readonly ModelFamily[] = [
  { ...unknownFamily, mark: "anthropic.", reasoning: "thinking", cachePoints: true },
  { ...unknownFamily, mark: "amazon.nova-2", reasoning: "reasoning_config", cachePoints: true },
  { ...unknownFamily, mark: "amazon.nova", cachePoints: true },
  { ...unknownFamily, mark: "mistral.", shortIds: true },
  { ...unknownFamily, mark: "openai.gpt-oss", reasoning: "reasoning_effort", refuses: ["stop"] },
  { ...unknownFamily, mark: "openai.", reasoning: "reasoning", refuses: ["temperature", "top_p", "stop"] },
];

/** How channels of the Messages API are addressed, wherever it is served. */
export const messagesApi = {
  paths: { ...defaultPaths, chatPath: "/v1/messages" },
  modelsPath: "/v1/models",
  authHeader: "x-api-key",
  authPrefix: "",
  forwardHeaders: ["anthropic-beta", "anthropic-version"],
} as const satisfies Partial<Preset>;

/** What channels of `generateContent` offer, wherever it is served. */
const generateApi: Partial<Preset> = {
  operations: ["chat", "transcription", "speech"],
  namedOperations: [
    { part: "-tts", operations: ["speech"] },
    { part: "", operations: ["chat", "transcription"] },
  ],
  // Its models write no times that can be relied on.
  transcriptionFormats: [{ prefix: "", formats: ["json", "text"] }],
  transcriptionStream: false,
  speechFormats: ["pcm"],
  speechEvents: [],
  voices: geminiVoices,
};

/** Cloud APIs take the token of a service account, or with `auth: key` an API key in this header. */
const googleKey: Partial<Preset> = {
  auth: "google",
  authHeader: "x-goog-api-key",
  authPrefix: "",
  modelsPath: null,
  environment: { key: [], address: [], addressPath: "", region: [] },
};

const chatOnly: readonly Operation[] = ["chat"];
const withAudio: readonly Operation[] = ["chat", "transcription", "speech"];
const hearsAndSpeaks: readonly Operation[] = ["transcription", "speech"];
/** Chats, and what most servers of open models offer besides. */
const texts: readonly Operation[] = ["chat", "embedding", "completion"];
const awsRegions: readonly string[] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
const awsKeyParts: NonNullable<PresetEnvironment["keyParts"]> = [
  { variable: "AWS_ACCESS_KEY_ID", optional: false },
  { variable: "AWS_SECRET_ACCESS_KEY", optional: false },
  { variable: "AWS_SESSION_TOKEN", optional: true },
];

/** Its variables are those of another preset too, which adds the channel. */
const noEnvironment: PresetEnvironment = { key: [], address: [], addressPath: "", region: [] };
/** Places that are not regions have hosts of their own. */
const vertexRegions: NonNullable<Preset["regions"]> = {
  global: vertexUrl("aiplatform.googleapis.com", "global"),
  us: vertexUrl("aiplatform.us.rep.googleapis.com", "us"),
  eu: vertexUrl("aiplatform.eu.rep.googleapis.com", "eu"),
};

function vertexUrl(host: string, location: string): string {
  return `https://${host}/v1/projects/{resource}/locations/${location}`;
}

function speechUrl(host: string, location: string): string {
  return `https://${host}/v2/projects/{resource}/locations/${location}`;
}

export const presets: readonly Preset[] = [
  hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", {
    operations: [...withAudio, "embedding", "completion", "moderation", "image"],
    transcriptionFormats: [
      { prefix: "gpt-4o-transcribe-diarize", formats: ["json", "text", "diarized_json"] },
      { prefix: "gpt-", formats: ["json"] },
    ],
    speechEvents: ["gpt-"],
    quirks: strictQuirks,
    forwardHeaders: ["openai-beta"],
  }),
  hosted("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", {
    dialect: "anthropic",
    ...messagesApi,
  }),
  hosted("azure-anthropic", "https://{resource}.services.ai.azure.com/anthropic", "ANTHROPIC_FOUNDRY_API_KEY", {
    dialect: "anthropic",
    ...messagesApi,
    modelsPath: null,
    environment: { key: ["ANTHROPIC_FOUNDRY_API_KEY"], address: ["ANTHROPIC_FOUNDRY_BASE_URL"], addressPath: "", region: [] },
    remark: "the Messages API on Azure; models are the names of your deployments",
  }),
  hosted("azure-openai", "https://{resource}.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY", {
    authHeader: "api-key",
    authPrefix: "",
    operations: [...withAudio, "embedding", "completion", "image"],
    quirks: strictQuirks,
    modelsPath: null,
    dated: {
      baseUrl: "https://{resource}.openai.azure.com",
      paths: {
        chatPath: "/openai/deployments/{model}/chat/completions",
        responsesPath: "/openai/responses",
        transcriptionPath: "/openai/deployments/{model}/audio/transcriptions",
        translationPath: "/openai/deployments/{model}/audio/translations",
        speechPath: "/openai/deployments/{model}/audio/speech",
        passthroughPaths: {
          embedding: "/openai/deployments/{model}/embeddings",
          completion: "/openai/deployments/{model}/completions",
          moderation: "/openai/deployments/{model}/moderations",
          image: "/openai/deployments/{model}/images/generations",
          rerank: "/openai/deployments/{model}/rerank",
        },
      },
    },
    environment: {
      key: ["AZURE_OPENAI_API_KEY"],
      keyParts: ["AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"].map((variable) => ({ variable, optional: false })),
      keyPartsAuth: "entra",
      address: ["AZURE_OPENAI_ENDPOINT"],
      addressPath: "/openai/v1",
      region: [],
    },
    remark: "models are the names of your deployments; for another host of the resource give `base_url`",
  }),
  hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", {
    operations: withAudio,
    transcriptionFormats: [{ prefix: "", formats: ["json", "text", "verbose_json"] }],
    transcriptionStream: false,
  }),
  hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", {
    operations: ["chat", "transcription", "embedding", "moderation"],
    // Refuses the field with 422 and sends usage in every stream without being asked. Transcriptions:
    // https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-files
    quirks: { ...usualQuirks, streamOptions: false, plainLists: true, timesOnRequest: true },
  }),
  hosted("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", { quirks: { ...usualQuirks, needsReasoning: true } }),
  hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", {
    operations: texts,
    forwardHeaders: ["http-referer", "x-title", "x-openrouter-title"],
  }),
  hosted("together", "https://api.together.ai/v1", "TOGETHER_API_KEY", {
    operations: [...withAudio, "embedding", "completion", "image", "rerank"],
  }),
  hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", { operations: [...texts, "rerank"] }),
  hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", { operations: ["chat", "image"] }),
  hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", { operations: ["chat", "completion"] }),
  hosted("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY", {
    modelsPath: null,
    // Sends usage in every chunk without being asked, and does not document the field.
    quirks: { ...usualQuirks, streamOptions: false },
    warning: "the provider announced the end of its chat completions for 2026-09-27; requests may be refused",
  }),
  hosted("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", { operations: texts }),
  hosted("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", {
    operations: ["chat", "embedding", "image"],
    listedPrefix: "models/",
    environment: {
      key: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
      address: [],
      addressPath: "",
      region: [],
      beside: { suffix: "audio", dialect: "gemini", operations: ["transcription", "speech"] },
    },
    variants: {
      gemini: {
        ...generateApi,
        dialect: "gemini",
        baseUrl: "https://generativelanguage.googleapis.com/v1beta",
        paths: { ...defaultPaths, chatPath: "/models/{model}:generateContent" },
        authHeader: "x-goog-api-key",
        authPrefix: "",
        // 100 MB as base64: https://blog.google/innovation-and-ai/technology/developers-tools/gemini-api-new-file-limits
        audioBytesMax: 74_000_000,
      },
    },
    remark: "the provider's OpenAI-compatible endpoint; with `dialect: gemini` its own API, which has transcription and speech as well",
  }),
  hosted("bedrock", "https://bedrock-mantle.{region}.api.aws/openai/v1", "AWS_BEARER_TOKEN_BEDROCK", {
    environment: {
      key: ["AWS_BEARER_TOKEN_BEDROCK"],
      address: [],
      addressPath: "",
      region: awsRegions,
    },
    remark:
      "some models are served under `/v1` instead of `/openai/v1`: " +
      "for those give `base_url: https://bedrock-mantle.REGION.api.aws/v1`",
  }),
  hosted("bedrock-converse", "https://bedrock-runtime.{region}.amazonaws.com", "", {
    dialect: "bedrock-converse",
    paths: { ...defaultPaths, chatPath: "/model/{model}" },
    auth: "aws",
    modelsPath: null,
    environment: { key: [], keyParts: awsKeyParts, address: [], addressPath: "", region: awsRegions },
    remark:
      "models are the ids of models or inference profiles, such as `eu.amazon.nova-pro-v1:0`; " +
      "with a Bedrock API key instead of access keys, add `auth: key`",
  }),
  hosted("bedrock-anthropic", "https://bedrock-runtime.{region}.amazonaws.com", "", {
    dialect: "anthropic-bedrock",
    paths: { ...defaultPaths, chatPath: "/model/{model}/invoke" },
    forwardHeaders: messagesApi.forwardHeaders,
    auth: "aws",
    modelsPath: null,
    environment: noEnvironment,
    remark: "the Messages API on Bedrock; models are ids of models or inference profiles",
  }),
  hosted("vertex", vertexUrl("{region}-aiplatform.googleapis.com", "{region}"), "", {
    ...generateApi,
    dialect: "gemini",
    // A request of 20 MB, as base64.
    audioBytesMax: 14_000_000,
    paths: { ...defaultPaths, chatPath: "/publishers/google/models/{model}:generateContent" },
    regions: vertexRegions,
    auth: "google",
    modelsPath: null,
    environment: {
      ...noEnvironment,
      keyFile: ["GOOGLE_APPLICATION_CREDENTIALS"],
      resource: ["GOOGLE_CLOUD_PROJECT"],
      region: ["GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"],
    },
    remark: "`resource` is the project; without a key, the service account of this machine is used",
  }),
  hosted("vertex-anthropic", vertexUrl("{region}-aiplatform.googleapis.com", "{region}"), "", {
    dialect: "anthropic-vertex",
    paths: { ...defaultPaths, chatPath: "/publishers/anthropic/models/{model}:rawPredict" },
    forwardHeaders: messagesApi.forwardHeaders,
    regions: vertexRegions,
    auth: "google",
    modelsPath: null,
    environment: noEnvironment,
    remark: "the Messages API on Vertex AI; `resource` is the project, and without a key, the service account of this machine is used",
  }),
  hosted("google-tts", "https://texttospeech.googleapis.com/v1", "", {
    dialect: "google-tts",
    paths: { ...defaultPaths, speechPath: "/text:synthesize" },
    ...googleKey,
    operations: ["speech"],
    inputCharactersMax: 5000,
    voices: { names: new Map(starNames.map((name) => [name, `en-US-Chirp3-HD-${name}`])), unknown: "pass", fallback: null },
    remark:
      "Cloud Text-to-Speech, with a service account, or an API key and `auth: key`; " +
      "models are families of voices: chirp3-hd, neural2, wavenet, standard, studio",
  }),
  hosted("google-stt", speechUrl("{region}-speech.googleapis.com", "{region}"), "", {
    dialect: "google-stt",
    paths: { ...defaultPaths, transcriptionPath: "/recognizers/_:recognize" },
    regions: { global: speechUrl("speech.googleapis.com", "global") },
    ...googleKey,
    operations: ["transcription"],
    transcriptionStream: false,
    translation: false,
    // A minute, and 10 MB as base64: https://cloud.google.com/speech-to-text/v2/quotas
    audioSecondsMax: 60,
    audioBytesMax: 7_400_000,
    remark:
      "Cloud Speech-to-Text, with a service account, or an API key and `auth: key`; `resource` is the project; " +
      "name the models, such as chirp_3 (region us or eu); recordings of up to a minute",
  }),
  hosted("cohere", "https://api.cohere.com", "COHERE_API_KEY", {
    dialect: "cohere",
    operations: ["chat", "rerank"],
    paths: { ...defaultPaths, chatPath: "/v2/chat", passthroughPaths: { ...defaultPaths.passthroughPaths, rerank: "/v2/rerank" } },
    modelsPath: "/v1/models?endpoint=chat&page_size=1000",
    environment: { key: ["COHERE_API_KEY", "CO_API_KEY"], address: [], addressPath: "", region: [] },
  }),
  hosted("deepgram", "https://api.deepgram.com/v1", "DEEPGRAM_API_KEY", {
    dialect: "deepgram",
    paths: { ...defaultPaths, transcriptionPath: "/listen", speechPath: "/speak" },
    authPrefix: "Token ",
    modelsPath: null,
    operations: hearsAndSpeaks,
    transcriptionStream: false,
    translation: false,
    inputCharactersMax: 2000,
    voices: deepgramVoices,
    namedOperations: [
      { part: "nova", operations: ["transcription"] },
      { part: "aura", operations: ["speech"] },
    ],
    modelNames: /^(?:nova-\d|aura)(?:$|-)/,
    remark: "name the models, such as nova-3 and aura-2",
  }),
  hosted("elevenlabs", "https://api.elevenlabs.io/v1", "ELEVENLABS_API_KEY", {
    dialect: "elevenlabs",
    paths: { ...defaultPaths, transcriptionPath: "/speech-to-text", speechPath: "/text-to-speech" },
    authHeader: "xi-api-key",
    authPrefix: "",
    modelsPath: null,
    operations: hearsAndSpeaks,
    transcriptionStream: false,
    translation: false,
    // The least that any of its models takes. Some take forty thousand.
    inputCharactersMax: 5000,
    voices: elevenlabsVoices,
    namedOperations: [
      { part: "scribe_", operations: ["transcription"] },
      { part: "eleven_", operations: ["speech"] },
    ],
    modelNames: /^(?:scribe|eleven)_/,
    remark: "name the models, such as scribe_v2 and eleven_flash_v2_5",
  }),
  hosted("cartesia", "https://api.cartesia.ai", "CARTESIA_API_KEY", {
    dialect: "cartesia",
    paths: { ...defaultPaths, speechPath: "/tts/bytes" },
    modelsPath: null,
    operations: ["speech"],
    voices: cartesiaVoices,
    modelNames: /^sonic(?:$|-)/,
    remark: "speech only; name the models, such as sonic-3.5",
  }),
  hosted("assemblyai", "https://api.assemblyai.com/v2", "ASSEMBLYAI_API_KEY", {
    dialect: "assemblyai",
    paths: { ...defaultPaths, transcriptionPath: "/transcript" },
    authPrefix: "",
    modelsPath: null,
    operations: ["transcription"],
    transcriptionStream: false,
    translation: false,
    // Ten hours.
    audioSecondsMax: 36_000,
    modelNames: /^(?:universal|slam)-\d/,
    remark: "transcription only; name the models, such as universal-3-5-pro; in Europe with `base_url: https://api.eu.assemblyai.com/v2`",
  }),
  hosted("azure-speech", "https://{region}.api.cognitive.microsoft.com", "AZURE_SPEECH_KEY", {
    dialect: "azure-speech",
    paths: {
      ...defaultPaths,
      transcriptionPath: "/speechtotext/transcriptions:transcribe",
      translationPath: "/speechtotext/transcriptions:transcribe",
      speechPath: "/tts/cognitiveservices/v1",
    },
    regions: {
      usgovarizona: "https://usgovarizona.api.cognitive.microsoft.us",
      usgovvirginia: "https://usgovvirginia.api.cognitive.microsoft.us",
      chinaeast2: "https://chinaeast2.api.cognitive.azure.cn",
      chinanorth2: "https://chinanorth2.api.cognitive.azure.cn",
      chinanorth3: "https://chinanorth3.api.cognitive.azure.cn",
    },
    authHeader: "ocp-apim-subscription-key",
    authPrefix: "",
    modelsPath: null,
    operations: hearsAndSpeaks,
    transcriptionStream: false,
    inputCharactersMax: 4096,
    voices: azureVoices,
    namedOperations: [
      { part: "llm-speech", operations: ["transcription"] },
      { part: "mai-transcribe", operations: ["transcription"] },
      { part: "MAI-Transcribe", operations: ["transcription"] },
      { part: "mai-voice", operations: ["speech"] },
      { part: "MAI-Voice", operations: ["speech"] },
    ],
    modelNames: /^(?:llm-speech|mai-(?:transcribe|voice))(?:$|-)/i,
    environment: {
      key: ["AZURE_SPEECH_KEY"],
      address: ["AZURE_SPEECH_ENDPOINT"],
      addressPath: "",
      region: ["AZURE_SPEECH_REGION"],
    },
    remark:
      "models of transcription are `llm-speech`, those whose names begin with `mai-`, and any other name for the default one; " +
      "for a resource with a domain of its own give `base_url` in place of `region`",
  }),
  selfHosted("ollama", "http://127.0.0.1:11434/v1", {
    operations: texts,
    environment: { key: [], address: ["OLLAMA_HOST"], addressPath: "/v1", region: [] },
  }),
  selfHosted("vllm", "http://127.0.0.1:8000/v1", { operations: [...texts, "transcription", "rerank"] }),
  selfHosted("lmstudio", "http://127.0.0.1:1234/v1", { operations: texts }),
  selfHosted("llama.cpp", "http://127.0.0.1:8080/v1", { operations: [...texts, "rerank"] }),
  selfHosted("embedded", "engine://local/v1", {
    local: true,
    // Any other channel with a model of the same name is preferred.
    tier: 1000,
    operations: withAudio,
    modelsPath: null,
    transcriptionFormats: [{ prefix: "", formats: ["json", "verbose_json"] }],
    speechFormats: ["pcm", "wav"],
    speechEvents: [],
    // Longer audio would take more time than a call may last.
    audioSecondsMax: 900,
    remark: "small models that come with the gateway and run on this machine; see docs/embedded.md",
  }),
];

const byName: ReadonlyMap<string, Preset> = new Map(presets.map((preset) => [preset.name, preset]));

/** `dialect`: the one that the channel chooses, where its provider speaks more than one. */
export function presetNamed(name: string, dialect: string | null = null): Preset | null {
  const preset = byName.get(name) ?? null;
  if (preset === null || dialect === null || !Object.hasOwn(preset.variants, dialect)) return preset;
  return { ...preset, ...preset.variants[dialect] };
}

/** What a channel may say about its provider's address. */
export interface PresetOptions {
  readonly baseUrl: string | null;
  readonly resource: string | null;
  readonly region: string | null;
  readonly apiVersion: string | null;
}

export type PresetOption = "resource" | "region";

/** The options that the address of this provider needs. */
export function optionsOf(preset: Preset): readonly PresetOption[] {
  return (["resource", "region"] as const).filter((option) => preset.baseUrl.includes(`{${option}}`));
}

/** The address of this provider, or the option that is missing. An explicit base URL always wins. */
export function presetAddress(preset: Preset, options: PresetOptions): Omit<Address, "host"> | { readonly missing: PresetOption } {
  const dated = options.apiVersion === null ? null : preset.dated;
  const missing = options.baseUrl === null ? optionsOf(preset).find((option) => options[option] === null) : undefined;
  if (missing !== undefined) return { missing };
  const regional = Object.hasOwn(preset.regions ?? {}, options.region ?? "") ? preset.regions?.[options.region ?? ""] : undefined;
  const template = options.baseUrl ?? dated?.baseUrl ?? regional ?? preset.baseUrl;
  return {
    baseUrl: template.replaceAll("{resource}", options.resource ?? "").replaceAll("{region}", options.region ?? ""),
    ...(dated?.paths ?? preset.paths),
    modelsPath: dated === null ? preset.modelsPath : null,
    query: dated === null ? "" : `?api-version=${encodeURIComponent(options.apiVersion ?? "")}`,
    authHeader: preset.authHeader,
    authPrefix: preset.authPrefix,
  };
}

function hosted(name: string, baseUrl: string, keyVariable: string, facts: Partial<Preset> = {}): Preset {
  return {
    name,
    dialect: defaultDialect,
    baseUrl,
    paths: defaultPaths,
    modelsPath: "/models",
    listedPrefix: "",
    dated: null,
    authHeader: "authorization",
    authPrefix: "Bearer ",
    needsKey: true,
    local: false,
    tier: 1,
    operations: chatOnly,
    namedOperations: [],
    transcriptionFormats: [],
    transcriptionStream: true,
    translation: true,
    speechFormats: null,
    speechEvents: null,
    inputCharactersMax: null,
    audioBytesMax: null,
    audioSecondsMax: null,
    voices: null,
    quirks: usualQuirks,
    forwardHeaders: [],
    environment: { key: [keyVariable], address: [], addressPath: "", region: [] },
    variants: {},
    remark: null,
    warning: null,
    ...facts,
  };
}

/** On the operator's own machine or network: no key unless the operator set one. */
function selfHosted(name: string, baseUrl: string, facts: Partial<Preset> = {}): Preset {
  return {
    ...hosted(name, baseUrl, ""),
    needsKey: false,
    environment: { key: [], address: [], addressPath: "", region: [] },
    ...facts,
  };
}
