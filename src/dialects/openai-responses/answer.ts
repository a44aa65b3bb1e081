import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { explainInBand } from "../errors/explain.ts";
import { sniffsAsEvents } from "../readers/event-reader.ts";
import { parseUntrusted } from "../untrusted.ts";
import { finishOf, responseAnswer, saidIn, usageOf, type DeclaredTools } from "./items.ts";

/**
 * Reads a response with status 200. Truncated JSON, an error or a response that is not finished is a failure of the channel, which can be
 * retried elsewhere. A valid one keeps its bytes. `tools`: the client speaks another API, and gets what the response says.
 */
export function readResponse(body: Uint8Array, tools: DeclaredTools | null): WholeAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  if (sniffsAsEvents(body)) return failure("bad_response", "a stream came where a whole answer was asked for");
  const response = parseUntrusted(decoder.decode(body), body);
  if (response === undefined) return failure("bad_response", "the answer is not JSON");
  if (!isJsonObject(response)) return failure("bad_response", "the answer is JSON, but not an object");
  const trouble = troubleIn(response);
  if (trouble !== null) return trouble;
  const usage = usageOf(response);
  return {
    kind: "whole",
    body,
    type: "application/json",
    usage,
    finish: finishOf(response).reason,
    ...(usage?.completionTokens == null ? { said: saidIn(response) } : undefined),
    ...(tools === null ? undefined : { answer: responseAnswer(response, tools) }),
  };
}

/** Why a response is no answer; null if it is one. */
export function troubleIn(response: JsonObject): Failure | null {
  const { error, status, output } = response;
  if (error !== undefined && error !== null) return explainInBand(error);
  if (status === "failed" || status === "cancelled") return failure("model_failed", `the response's status is ${status}`);
  if (status === "queued" || status === "in_progress") return failure("bad_response", `the response's status is ${status}`);
  return Array.isArray(output) ? null : failure("bad_response", "the response has no output");
}

const decoder = new TextDecoder();
