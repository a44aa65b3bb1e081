import { type MeteredUsage, nothingCounted, tokenUsage } from "../usage.ts";

/** The usage of an answer without output tokens. Some upstreams report only a total, which is all input. */
export function inputUsage(reported: unknown): MeteredUsage {
  const total = (reported as { readonly total_tokens?: unknown } | null)?.total_tokens;
  const promptTokens = tokenUsage(reported)?.promptTokens ?? tokenUsage({ prompt_tokens: total })?.promptTokens ?? null;
  return { ...nothingCounted, promptTokens, completionTokens: 0 };
}
