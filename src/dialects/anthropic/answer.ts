import type { Tool } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject } from "../../operations/json.ts";
import { servedBy } from "../../operations/usage.ts";
import { explainInBand } from "../errors/explain.ts";
import { sniffsAsEvents } from "../readers/event-reader.ts";
import { parseUntrusted } from "../untrusted.ts";
import { finishReason, messageAnswer, servedModel } from "./message-parts.ts";
import { messageUsage } from "./message-usage.ts";

/**
 * Reads an answer with status 200. Truncated JSON, an error or an answer without content is a failure of the channel, which can be retried
 * elsewhere. `tools`: those of a request that was translated; null: the client speaks this API, and gets the bytes as they are.
 */
export function readMessage(body: Uint8Array, tools: readonly Tool[] | null): WholeAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  if (sniffsAsEvents(body)) return failure("bad_response", "a stream came where a whole answer was asked for");
  const message = parseUntrusted(decoder.decode(body), body);
  if (message === undefined) return failure("bad_response", "the answer is not JSON");
  if (!isJsonObject(message)) return failure("bad_response", "the answer is JSON, but not an object");
  if (message["type"] === "error" || isJsonObject(message["error"])) return explainInBand(message["error"] ?? message);
  if (!Array.isArray(message["content"])) return failure("bad_response", "the answer has no content");
  const reason = message["stop_reason"];
  const answer = tools === null ? null : messageAnswer(body, message, tools);
  return {
    kind: "whole",
    body,
    type: "application/json",
    usage: servedBy(messageUsage(message["usage"]), servedModel(message["content"] as readonly unknown[])),
    finish: typeof reason === "string" ? (answer?.finish.reason ?? finishReason(reason)) : null,
    ...(answer === null ? undefined : { answer }),
  };
}

const decoder = new TextDecoder();
