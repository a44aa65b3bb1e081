import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { tokenUsage } from "../../operations/usage.ts";
import { sniffsAsEvents } from "../readers/event-reader.ts";
import { explainInBand } from "../errors/explain.ts";
import { filledTextOf, parseUntrusted } from "../untrusted.ts";

/**
 * Reads an answer with status 200. Truncated JSON, an error or an answer without choices is a failure of the channel, which can be
 * retried elsewhere. A valid answer keeps its bytes.
 */
export function readAnswer(body: Uint8Array): WholeAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  if (sniffsAsEvents(body)) return failure("bad_response", "a stream came where a whole answer was asked for");
  const answer = parseUntrusted(decoder.decode(body), body) as ChatCompletion | null | undefined;
  if (answer === undefined) return failure("bad_response", "the answer is not JSON");
  if (typeof answer !== "object" || answer === null) return failure("bad_response", "the answer is JSON, but not an object");
  if (answer.error !== undefined && answer.error !== null) return explainInBand(answer.error);
  const { choices } = answer;
  if (!Array.isArray(choices)) return failure("bad_response", "the answer has no choices");
  if (choices.length === 0) return failure("bad_response", "the answer's choices are empty");
  const first = choices[0] as { readonly finish_reason?: unknown; readonly message?: { readonly refusal?: unknown } | null } | null;
  const finish = filledTextOf(first?.finish_reason);
  const usage = tokenUsage(answer.usage, answer.model);
  if (brokenOff.has(finish)) {
    const broken = failure("model_failed", `the answer's finish_reason is ${finish}`);
    return usage === null ? broken : { ...broken, served: true };
  }
  const whole = { kind: "whole", body, type: "application/json", usage, finish } as const;
  const refusal = first?.message?.refusal;
  return typeof refusal === "string" && refusal !== "" ? { ...whole, refused: true } : whole;
}

/**
 * Reasons of an answer that is not complete, because the upstream failed in the middle of it. `abort`: the server's engine gave the request
 * up, and the end mark follows all the same.
 */
export const brokenOff: ReadonlySet<string | null> = new Set(["error", "abort", "insufficient_system_resource"]);

interface ChatCompletion {
  readonly error?: unknown;
  readonly choices?: unknown;
  readonly usage?: unknown;
  readonly model?: unknown;
}

const decoder = new TextDecoder();
