import type { Dialect } from "./dialect.ts";
import { bedrockConverse } from "./bedrock/converse.ts";
import { deepgram } from "./deepgram/deepgram.ts";
import { elevenlabs } from "./elevenlabs/elevenlabs.ts";
import { gemini } from "./gemini/gemini.ts";
import { openai } from "./openai/openai.ts";
import { openaiResponses } from "./openai-responses/openai-responses.ts";

/** Every dialect the gateway speaks, by name. */
export const dialects: ReadonlyMap<string, Dialect> = new Map(
  [openai, bedrockConverse, openaiResponses, deepgram, elevenlabs, gemini].map((dialect) => [dialect.name, dialect]),
);
