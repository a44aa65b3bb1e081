import type { Dialect } from "./dialect.ts";
import { anthropic, anthropicOn } from "./anthropic/anthropic.ts";
import { assemblyai } from "./assemblyai/assemblyai.ts";
import { azureSpeech } from "./azure-speech/azure-speech.ts";
import { bedrockHost, vertexHost } from "./anthropic/hosts.ts";
import { explainAws } from "./bedrock/bedrock-errors.ts";
import { bedrockConverse } from "./bedrock/converse.ts";
import { invokedEvents } from "./bedrock/invoked-events.ts";
import { cartesia } from "./cartesia/cartesia.ts";
import { cohere } from "./cohere/cohere.ts";
import { deepgram } from "./deepgram/deepgram.ts";
import { elevenlabs } from "./elevenlabs/elevenlabs.ts";
import { gemini } from "./gemini/gemini.ts";
import { googleSpeechToText, googleTextToSpeech } from "./google/google-cloud.ts";
import { openai } from "./openai/openai.ts";
import { openaiResponses } from "./openai-responses/openai-responses.ts";

const all: readonly Dialect[] = [
  openai,
  openaiResponses,
  anthropic,
  anthropicOn(vertexHost),
  anthropicOn(bedrockHost(invokedEvents, explainAws)),
  bedrockConverse,
  cohere,
  gemini,
  deepgram,
  elevenlabs,
  cartesia,
  googleTextToSpeech,
  googleSpeechToText,
  assemblyai,
  azureSpeech,
];

/** Every dialect the gateway speaks, by name. */
export const dialects: ReadonlyMap<string, Dialect> = new Map(all.map((dialect) => [dialect.name, dialect]));
