import { type MeteredUsage, nothingCounted, tokenUsage } from "../usage.ts";

/** The usage of an answer without output tokens. Some upstreams report only a total, which is all input. */
export function inputUsage(reported: unknown): MeteredUsage {
  const total = (reported as { readonly total_tokens?: unknown } | null)?.total_tokens;
  const promptTokens = tokenUsage(reported)?.promptTokens ?? tokenUsage({ prompt_tokens: total })?.promptTokens ?? null;
  return { ...nothingCounted, promptTokens, completionTokens: 0 };
}

/** The usage of images, which are counted; newer models report tokens as well. */
export function imageUsage(reported: unknown, images: number): MeteredUsage {
  const { input_tokens, output_tokens } = (reported ?? {}) as { readonly input_tokens?: unknown; readonly output_tokens?: unknown };
  const tokens = tokenUsage({ prompt_tokens: input_tokens, completion_tokens: output_tokens });
  return { ...nothingCounted, ...tokens, images };
}
