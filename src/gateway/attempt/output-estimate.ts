import { parseUntrusted } from "../../dialects/untrusted.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { estimateTokens } from "../../usage/token-estimate.ts";

/** Estimates the tokens of a whole answer whose upstream did not report them. Zero if it did, or if nothing can be estimated. */
export function outputEstimate({ body, type, usage }: WholeAnswer): number {
  if (usage?.completionTokens != null || !type.startsWith("application/json")) return 0;
  const answer = parseUntrusted(decoder.decode(body), body);
  return textsIn((answer as { readonly choices?: unknown } | null | undefined)?.choices).reduce(
    (sum, text) => sum + estimateTokens(text),
    0,
  );
}

const decoder = new TextDecoder();

/** The texts of all choices: content, refusals, reasoning, and the names and arguments of tool calls. */
function textsIn(choices: unknown): readonly string[] {
  if (!Array.isArray(choices)) return [];
  return choices.flatMap((choice: { readonly message?: Readonly<Record<string, unknown>> | null } | null) => {
    const message = choice?.message;
    if (typeof message !== "object" || message === null) return [];
    const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"] : [];
    const called = calls.map(
      (call: { readonly function?: unknown } | null) => call?.function as Readonly<Record<string, unknown>> | null | undefined,
    );
    const said = ["content", "refusal", "reasoning", "reasoning_content"].map((name) => message[name]);
    return [...said, ...called.flatMap((one) => [one?.["name"], one?.["arguments"]])].filter((text) => typeof text === "string");
  });
}
