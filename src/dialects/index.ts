import type { Dialect } from "./dialect.ts";
import { anthropic, anthropicOn } from "./anthropic/anthropic.ts";
import { vertexHost } from "./anthropic/hosts.ts";
import { bedrockConverse } from "./bedrock/converse.ts";
import { cohere } from "./cohere/cohere.ts";
import { deepgram } from "./deepgram/deepgram.ts";
import { elevenlabs } from "./elevenlabs/elevenlabs.ts";
import { gemini } from "./gemini/gemini.ts";
import { openai } from "./openai/openai.ts";
import { openaiResponses } from "./openai-responses/openai-responses.ts";

const all: readonly Dialect[] = [
  openai,
  openaiResponses,
  anthropic,
  anthropicOn(vertexHost),
  bedrockConverse,
  cohere,
  gemini,
  deepgram,
  elevenlabs,
];

/** Every dialect the gateway speaks, by name. */
export const dialects: ReadonlyMap<string, Dialect> = new Map(all.map((dialect) => [dialect.name, dialect]));
