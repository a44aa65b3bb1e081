import type { ChatWhole } from "../operations/chat.ts";
import { failure, type Failure } from "../operations/failure.ts";
import { elementsOf, type JsonLimits, lastMember, membersOf, scanJson, valueOf } from "../operations/json.ts";
import { tokenUsage } from "../operations/usage.ts";
import { explainInBand } from "./explain.ts";

/**
 * Judges an answer that came with status 200. Truncated JSON, an error in disguise or an answer without choices is a
 * failure of the channel, to be retried elsewhere; a sound answer keeps its bytes.
 */
export function readAnswer(body: Uint8Array): ChatWhole | Failure {
  const document = scanJson(body, answerLimits);
  if (!document.ok) return failure("bad_response", body.length === 0 ? "the answer is empty" : `the answer is not JSON: ${document.message}`);
  if (document.kind !== "object") return failure("bad_response", `the answer is JSON, but a ${document.kind}`);
  const error = lastMember(document.members, "error");
  if (error !== undefined && error.kind !== "null") return explainInBand(valueOf(body, error));
  const choices = lastMember(document.members, "choices");
  if (choices?.kind !== "array") return failure("bad_response", "the answer has no choices");
  if (choices.empty) return failure("bad_response", "the answer's choices are empty");
  const finish = firstFinish(body, choices);
  if (finish === "error") return failure("model_failed", "the answer's finish_reason is error");
  const usage = lastMember(document.members, "usage");
  return { kind: "whole", body, usage: usage?.kind === "object" ? tokenUsage(valueOf(body, usage)) : null, finish };
}

/** Answers may be large and hold many log probabilities; the scan is linear, so only depth needs a bound. */
const answerLimits: JsonLimits = { depthMax: 512, membersMax: Infinity, tokensMax: Infinity };

function firstFinish(body: Uint8Array, choices: { readonly start: number; readonly end: number }): string | null {
  const first = elementsOf(body, choices.start, choices.end)[0];
  if (first?.kind !== "object") return null;
  const finish = lastMember(membersOf(body, first.start, first.end), "finish_reason");
  return finish?.kind === "string" ? (valueOf(body, finish) as string) : null;
}
