import type { Adapter } from "./dialect.ts";
import { deepgram } from "./deepgram/deepgram.ts";
import { elevenlabs } from "./elevenlabs/elevenlabs.ts";
import { openai } from "./openai/openai.ts";

/** Every dialect the gateway speaks, by name. */
export const adapters: ReadonlyMap<string, Adapter> = new Map([openai, deepgram, elevenlabs].map((adapter) => [adapter.name, adapter]));
