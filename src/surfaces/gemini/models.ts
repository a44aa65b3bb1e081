import type { Failure } from "../../operations/failure.ts";
import { mistake } from "../../operations/mistakes.ts";

/** The page of a list that is asked for, as the query says it. */
export interface ModelPageQuery {
  readonly pageSize: string | null;
  readonly pageToken: string | null;
}

/** The body of `GET /v1beta/models`. A token is the name of the last model of the page before. */
export function modelListBody(ids: readonly string[], { pageSize, pageToken }: ModelPageQuery): Uint8Array | Failure {
  const count = pageSize === null ? sizeUsual : /^\d{1,6}$/.test(pageSize) ? Math.min(Number(pageSize), sizeMax) : 0;
  if (count < 1) return mistake("'pageSize' must be a whole number from 1.", "invalid_value", "pageSize");
  const after = pageToken === null || pageToken === "" ? -1 : ids.indexOf(pageToken);
  const from = pageToken !== null && pageToken !== "" && after === -1 ? ids.length : after + 1;
  const page = ids.slice(from, from + count);
  const last = page.at(-1);
  const hasMore = from + count < ids.length && last !== undefined;
  return encoded({ models: page.map(modelInfo), ...(hasMore ? { nextPageToken: last } : undefined) });
}

/** The body of `GET /v1beta/models/{id}`. */
export function modelInfoBody(id: string): Uint8Array {
  return encoded(modelInfo(id));
}

const sizeUsual = 50;
const sizeMax = 1000;

/** What the gateway does not know of a model, it does not claim. */
function modelInfo(id: string): object {
  return {
    name: `models/${id}`,
    baseModelId: id,
    version: "",
    displayName: id,
    supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"],
  };
}

function encoded(value: object): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

const encoder = new TextEncoder();
