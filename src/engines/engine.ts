import type { Operation } from "../operations/operation.ts";

/** A local model in a process of its own. There is one for each operation. */
export type Engine = Operation;

/** The engine that serves a path of the convention, or null. */
export function engineFor(path: string): Engine | null {
  return engines.get(path) ?? null;
}

const engines: ReadonlyMap<string, Engine> = new Map([
  ["/v1/chat/completions", "chat"],
  ["/v1/audio/transcriptions", "transcription"],
  ["/v1/audio/translations", "transcription"],
  ["/v1/audio/speech", "speech"],
]);
