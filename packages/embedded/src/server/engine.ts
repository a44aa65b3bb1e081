import type { RequestError } from "./request-error.ts";
import type { ServedModels } from "./served-models.ts";

/** What one engine process serves. */
export interface Engine {
  readonly models: ServedModels;
  /** POST endpoints by path. */
  readonly routes: ReadonlyMap<string, ReadJob>;
  readonly requestBytesMax: number;
}

/** Reads and validates a request. The job that it returns runs later, when it is its turn. */
export type ReadJob = (request: Request) => Promise<Job | RequestError>;

/**
 * Does the work, and stops at once when the signal is aborted because the client left. `worked` is called after each unit of work;
 * for a streamed body the server does that itself.
 */
export type Job = (signal: AbortSignal, worked: () => void) => Promise<Answer | RequestError>;

export interface Answer {
  readonly type: string;
  /** The first piece of a stream is read before the response starts, so that an error until then gets a proper status. */
  readonly body: string | AsyncGenerator<string | Uint8Array, void>;
}
