import type { Dialect } from "./dialect.ts";
import { deepgram } from "./deepgram/deepgram.ts";
import { elevenlabs } from "./elevenlabs/elevenlabs.ts";
import { openai } from "./openai/openai.ts";

/** Every dialect the gateway speaks, by name. */
export const dialects: ReadonlyMap<string, Dialect> = new Map([openai, deepgram, elevenlabs].map((dialect) => [dialect.name, dialect]));
