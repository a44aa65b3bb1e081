/** What the load generators ask for. The model's name tells the upstream how to answer, because it is the one value every target carries through. */
export const models = {
  json: "bench-json",
  burst: "bench-burst",
  paced: "bench-paced",
  idle: "bench-idle",
  flood: "bench-flood",
  refused: "bench-refused",
} as const;

export type Behaviour = keyof typeof models;

/** Every streamed token carries this byte exactly once, so that a reader counts tokens without parsing, wherever the bytes were cut. */
export const tokenMark = "~";

export const tokensPerSecond = 20;
export const tokensPerBurst = 100;

export function ask(behaviour: Behaviour, maxTokens = 4096): string {
  const stream = behaviour !== "json" && behaviour !== "refused";
  return JSON.stringify({
    model: models[behaviour],
    messages: [
      {
        role: "system",
        content: "You are a careful assistant. Answer in plain language, name what you are unsure of, and keep to what was asked.",
      },
      {
        role: "user",
        content:
          "Our service answers about forty requests a second and keeps a connection open to each upstream. What should we look at first when the slowest hundredth of them takes ten times as long as the rest?",
      },
    ],
    temperature: 0.7,
    max_tokens: maxTokens,
    ...(stream ? { stream: true } : {}),
  });
}
