import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { Failure } from "../../operations/failure.ts";
import { scanJson } from "../../operations/json.ts";
import { bodyMistake, wrongType } from "../../operations/mistakes.ts";
import { member } from "./names.ts";
import { readGenerateRequest } from "./request.ts";

/** Reads a request to `countTokens`: contents, or a whole request in `generateContentRequest`. */
export function readTokenCount(body: Uint8Array, model: string): ChatRequest | Failure {
  const document = scanJson(body);
  const unreadable = bodyMistake(document);
  if (unreadable !== null || !document.ok) return unreadable!;
  const whole = member(document.members, "generateContentRequest");
  if (whole !== undefined && whole.kind !== "object") return wrongType("generateContentRequest", "an object");
  const request = whole === undefined ? body : body.subarray(whole.start, whole.end);
  return readGenerateRequest(request, { model, stream: false, listed: false });
}

export function tokenCountBody(totalTokens: number): Uint8Array {
  return encoder.encode(JSON.stringify({ totalTokens }));
}

const encoder = new TextEncoder();
