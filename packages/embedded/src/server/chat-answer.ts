import type { GeneratedPart } from "../chat/stories.ts";

/** The fields that all chunks of an answer share. */
export interface AnswerHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly promptTokens: number;
}

type Parts = AsyncGenerator<GeneratedPart, void>;

export async function answerWhole(head: AnswerHead, parts: Parts, signal: AbortSignal, worked: () => void): Promise<string> {
  let content = "";
  let last: GeneratedPart | null = null;
  for await (const part of parts) {
    signal.throwIfAborted();
    worked();
    content += part.text;
    last = part;
  }
  const message = { role: "assistant", content, refusal: null };
  return JSON.stringify({
    id: head.id,
    object: "chat.completion",
    created: head.created,
    model: head.model,
    choices: [{ index: 0, message, finish_reason: last?.finish ?? "stop", logprobs: null }],
    usage: usageOf(head, last),
  });
}

/** One event per token that shows text. If usage was requested, it follows in an event of its own. */
export async function* answerEvents(
  head: AnswerHead,
  parts: Parts,
  wantsUsage: boolean,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  const event = (choices: readonly object[], usage: object | null): string => {
    const { id, created, model } = head;
    const chunk = { id, object: "chat.completion.chunk", created, model, choices, ...(wantsUsage ? { usage } : {}) };
    return `data: ${JSON.stringify(chunk)}\n\n`;
  };
  const choice = (delta: object, finish: string | null): readonly object[] => [{ index: 0, delta, finish_reason: finish, logprobs: null }];

  let last: GeneratedPart | null = null;
  for await (const part of parts) {
    signal.throwIfAborted();
    if (last === null) yield event(choice({ role: "assistant", content: "", refusal: null }, null), null);
    if (part.text !== "") yield event(choice({ content: part.text }, null), null);
    last = part;
  }
  yield event(choice({}, last?.finish ?? "stop"), null);
  if (wantsUsage) yield event([], usageOf(head, last));
  yield "data: [DONE]\n\n";
}

function usageOf({ promptTokens }: AnswerHead, last: GeneratedPart | null): object {
  const completionTokens = last?.tokens ?? 0;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
  };
}
