import type { Exchange } from "./exchange.ts";

/** The JSON of a whole answer. */
export function completion(exchange: Exchange, choices: readonly unknown[], usage: string | null): string {
  return withUsage(exchange, { ...envelope(exchange, "chat.completion"), choices }, usage);
}

/** The JSON of one streamed piece. Where usage was asked for, every piece has the field. */
export function chunk(exchange: Exchange, choices: readonly unknown[], usage: string | null = null): string {
  const piece = { ...envelope(exchange, "chat.completion.chunk"), choices };
  if (usage !== null) return withUsage(exchange, piece, usage);
  return JSON.stringify(exchange.ask.includeUsage ? { ...piece, usage: null } : piece);
}

/** Usage as JSON text, since an absurd one may be no JSON value at all. */
export function usageOf({ ask, manner }: Exchange, tokens: number): string {
  const completionTokens = tokens * ask.choices;
  const numbers = [ask.promptWords, completionTokens, ask.promptWords + completionTokens];
  const [prompt, spoken, total] = numbers.map((number) => manner.usageNumber ?? String(number));
  return `{"prompt_tokens":${prompt},"completion_tokens":${spoken},"total_tokens":${total}}`;
}

function envelope(exchange: Exchange, object: string): Record<string, unknown> {
  return {
    id: `chatcmpl-${exchange.attempt.id}`,
    object,
    created: Math.floor((performance.timeOrigin + exchange.attempt.at) / 1000),
    model: exchange.ask.model,
  };
}

function withUsage(exchange: Exchange, value: Record<string, unknown>, usage: string | null): string {
  const json = JSON.stringify(value);
  if (usage === null) return json;
  exchange.attempt.usageSent = usage;
  return `${json.slice(0, -1)},"usage":${usage}}`;
}
