import type { Failure } from "../../operations/failure.ts";
import { mistake } from "../../operations/mistakes.ts";

/** A model as `GET /v1/models` lists it. */
export interface ListedModel {
  readonly id: string;
  /** A name for people; null where the id is all there is. */
  readonly displayName: string | null;
  readonly createdSeconds: number;
}

/** The page of a list that is asked for, as the query says it. */
export interface ModelsQuery {
  readonly limit: string | null;
  readonly afterId: string | null;
  readonly beforeId: string | null;
}

/** The body of `GET /v1/models`. An id that is not in the list is the end of it, at which nothing follows. */
export function modelsBody(models: readonly ListedModel[], { limit, afterId, beforeId }: ModelsQuery): Uint8Array | Failure {
  const count = limit === null ? limitUsual : /^\d{1,4}$/.test(limit) ? Number(limit) : 0;
  if (count < 1 || count > limitMax) {
    return mistake(`'limit' must be a whole number from 1 to ${limitMax}.`, "invalid_value", "limit");
  }
  const before = beforeId === null ? -1 : models.findIndex(({ id }) => id === beforeId);
  const after = afterId === null ? -1 : models.findIndex(({ id }) => id === afterId);
  const from = afterId !== null ? (after === -1 ? models.length : after + 1) : beforeId !== null ? Math.max(0, before - count) : 0;
  const to = afterId === null && beforeId !== null ? Math.max(0, before) : Math.min(models.length, from + count);
  const page = models.slice(from, to);
  const hasMore = afterId === null && beforeId !== null ? from > 0 : to < models.length;
  return encoded({ data: page.map(modelInfo), has_more: hasMore, first_id: page[0]?.id ?? null, last_id: page.at(-1)?.id ?? null });
}

/** The body of `GET /v1/models/{id}`. */
export function modelBody(model: ListedModel): Uint8Array {
  return encoded(modelInfo(model));
}

const limitUsual = 20;
const limitMax = 1000;

/** Clients require every field. What the gateway does not know of a model, it does not claim. */
function modelInfo({ id, displayName, createdSeconds }: ListedModel): object {
  return {
    type: "model",
    id,
    display_name: displayName ?? id,
    created_at: new Date(Math.min(Math.max(createdSeconds, 0), secondsMax) * 1000).toISOString(),
    lifecycle: "active",
    capabilities: null,
    deprecated_at: null,
    retires_at: null,
    line: null,
    max_input_tokens: null,
    max_tokens: null,
  };
}

/** The last second of the year 9999. */
const secondsMax = 253_402_300_799;

function encoded(value: object): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

const encoder = new TextEncoder();
