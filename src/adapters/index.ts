import type { Adapter } from "./adapter.ts";
import { deepgram } from "./deepgram.ts";
import { elevenlabs } from "./elevenlabs.ts";
import { openai } from "./openai.ts";

/** Every dialect the gateway speaks, by name. */
export const adapters: ReadonlyMap<string, Adapter> = new Map([openai, deepgram, elevenlabs].map((adapter) => [adapter.name, adapter]));
