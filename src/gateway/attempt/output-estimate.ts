import { parseUntrusted } from "../../dialects/untrusted.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { estimateTokens } from "../../usage/token-estimate.ts";

/** Roughly how many tokens a whole answer has, where its upstream did not count them; zero where it did, or where nobody can tell. */
export function outputEstimate({ body, type, usage }: WholeAnswer): number {
  if (usage?.completionTokens != null || !type.startsWith("application/json")) return 0;
  const answer = parseUntrusted(decoder.decode(body), body);
  return textsIn((answer as { readonly choices?: unknown } | null | undefined)?.choices).reduce(
    (sum, text) => sum + estimateTokens(text),
    0,
  );
}

const decoder = new TextDecoder();

/** What a model said, thought, or wants to be called: all text of the choices but that which only names or numbers things. */
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
