import type { Failure } from "../../operations/failure.ts";
import { membersOf, scanJson, type JsonMember } from "../../operations/json.ts";
import { bodyMistake, missing, wrongType } from "../../operations/mistakes.ts";
import { member } from "./names.ts";
import { promptTokens } from "./prompt-tokens.ts";

/** Reads a request to `countTokens`: contents, or a whole request. Returns the estimate. */
export function readTokenCount(body: Uint8Array): number | Failure {
  const document = scanJson(body);
  const unreadable = bodyMistake(document);
  if (unreadable !== null || !document.ok) return unreadable!;
  const whole = member(document.members, "generateContentRequest");
  if (whole !== undefined && whole.kind !== "object") return wrongType("generateContentRequest", "an object");
  const members: readonly JsonMember[] = whole === undefined ? document.members : membersOf(body, whole.start, whole.end);
  const contents = member(members, "contents");
  if (contents === undefined) return missing("contents");
  if (contents.kind !== "array") return wrongType("contents", "an array");
  return promptTokens(body, members);
}

/** Only the provider of a model knows its tokens; where nobody can be asked, an estimate is better than an error. */
export function tokenCountBody(totalTokens: number): Uint8Array {
  return encoder.encode(JSON.stringify({ totalTokens }));
}

const encoder = new TextEncoder();
