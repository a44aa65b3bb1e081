import type { Refusal } from "./refusal.ts";
import type { ServedModels } from "./served-models.ts";

/** What one engine process serves. */
export interface Engine {
  readonly models: ServedModels;
  /** By path; each is asked with POST. */
  readonly routes: ReadonlyMap<string, ReadOrder>;
  readonly requestBytesMax: number;
}

/** Reads and checks a request. What it asks for is done later, when its turn comes. */
export type ReadOrder = (request: Request) => Promise<Order | Refusal>;

/**
 * Does the work, and stops at once when the signal says that nobody waits for it. `worked` is told of each unit that is done;
 * the pieces of a stream need not be told.
 */
export type Order = (signal: AbortSignal, worked: () => void) => Promise<Answer | Refusal>;

export interface Answer {
  readonly type: string;
  /** A stream is asked for its first piece before the answer begins, so that a failure until then is told properly. */
  readonly body: string | AsyncGenerator<string | Uint8Array, void>;
}
