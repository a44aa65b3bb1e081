/**
 * What other gateways call the providers in their configurations, for the import of these. The values are names of presets; one that
 * this version does not have is reported when it is met.
 */
export const litellmProviders: Readonly<Record<string, string>> = {
  openai: "openai",
  "text-completion-openai": "openai",
  azure: "azure-openai",
  anthropic: "anthropic",
  gemini: "gemini",
  vertex_ai: "vertex",
  bedrock: "bedrock-converse",
  groq: "groq",
  mistral: "mistral",
  deepseek: "deepseek",
  openrouter: "openrouter",
  together_ai: "together",
  fireworks_ai: "fireworks",
  xai: "xai",
  cerebras: "cerebras",
  perplexity: "perplexity",
  nvidia_nim: "nvidia",
  cohere: "cohere",
  cohere_chat: "cohere",
  ollama: "ollama",
  ollama_chat: "ollama",
  hosted_vllm: "vllm",
  vllm: "vllm",
  lm_studio: "lmstudio",
  llamafile: "llama.cpp",
  deepgram: "deepgram",
  elevenlabs: "elevenlabs",
  assemblyai: "assemblyai",
};

export const portkeyProviders: Readonly<Record<string, string>> = {
  openai: "openai",
  "azure-openai": "azure-openai",
  anthropic: "anthropic",
  google: "gemini",
  "vertex-ai": "vertex",
  bedrock: "bedrock-converse",
  groq: "groq",
  "mistral-ai": "mistral",
  deepseek: "deepseek",
  openrouter: "openrouter",
  "together-ai": "together",
  "fireworks-ai": "fireworks",
  "x-ai": "xai",
  cerebras: "cerebras",
  "perplexity-ai": "perplexity",
  cohere: "cohere",
  ollama: "ollama",
  deepgram: "deepgram",
};

/** What LiteLLM adds by itself to the addresses of some presets, and their settings here have to name. */
export const litellmPaths: Readonly<Record<string, string>> = { anthropic: "/v1", ollama: "/v1", "azure-openai": "/openai/v1" };

/** The same of Portkey (https://portkey.ai/docs/integrations/llms/ollama). */
export const portkeyPaths: Readonly<Record<string, string>> = { ollama: "/v1" };

/** One API numbers its types of channels. Some of them have an address of their own, and speak the OpenAI API. */
export const oneApiProviders: ReadonlyMap<number, { readonly preset: string } | { readonly baseUrl: string }> = new Map<
  number,
  { readonly preset: string } | { readonly baseUrl: string }
>([
  [1, { preset: "openai" }],
  [3, { preset: "azure-openai" }],
  [14, { preset: "anthropic" }],
  [20, { preset: "openrouter" }],
  [24, { preset: "gemini" }],
  [25, { baseUrl: "https://api.moonshot.cn/v1" }],
  [28, { preset: "mistral" }],
  [29, { preset: "groq" }],
  [30, { preset: "ollama" }],
  [31, { baseUrl: "https://api.lingyiwanwu.com/v1" }],
  [32, { baseUrl: "https://api.stepfun.com/v1" }],
  [35, { preset: "cohere" }],
  [36, { preset: "deepseek" }],
  [39, { preset: "together" }],
  [41, { baseUrl: "https://api.novita.ai/v3/openai" }],
]);

/** A model without a prefix belongs to this provider there. */
export const litellmDefault = "openai";

/** The header that carries what is a setting of its own there. */
export const organizationHeader = "openai-organization";

/** The resource in an address that contains nothing else of its own; null for any other address. */
export function resourceIn(address: string | null): string | null {
  return /^https:\/\/([a-z0-9-]+)\.openai\.azure\.com/i.exec(address ?? "")?.[1] ?? null;
}

/**
 * What the semantic conventions of OpenTelemetry call the providers, where it is not the name of the preset
 * (https://github.com/open-telemetry/semantic-conventions-genai, `gen_ai.provider.name`).
 */
export const telemetryProviders: Readonly<Record<string, string>> = {
  "azure-openai": "azure.ai.openai",
  "azure-anthropic": "azure.ai.inference",
  mistral: "mistral_ai",
  xai: "x_ai",
  gemini: "gcp.gemini",
  vertex: "gcp.vertex_ai",
  "vertex-anthropic": "gcp.vertex_ai",
  bedrock: "aws.bedrock",
  "bedrock-converse": "aws.bedrock",
  "bedrock-anthropic": "aws.bedrock",
};
