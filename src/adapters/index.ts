import type { Adapter } from "./adapter.ts";
import { openai } from "./openai.ts";

/** Every dialect the gateway speaks, by name. */
export const adapters: ReadonlyMap<string, Adapter> = new Map([openai].map((adapter) => [adapter.name, adapter]));
