/** What the load generators ask for. The model's name tells the upstream how to answer, because it is the one value every target carries through. */
export const models = {
  json: "bench-json",
  burst: "bench-burst",
  paced: "bench-paced",
  idle: "bench-idle",
  flood: "bench-flood",
  refused: "bench-refused",
  /** Speech as mp3, piece by piece. */
  spoken: "bench-spoken",
  /** The same as bare samples, whatever format was asked for. */
  sampled: "bench-sampled",
  /** A long mp3, all at once. */
  recited: "bench-recited",
  uploaded: "bench-uploaded",
} as const;

export type Behaviour = keyof typeof models;
export type ChatBehaviour = "json" | "burst" | "paced" | "idle" | "flood" | "refused";
export type SpeechBehaviour = "spoken" | "sampled" | "recited";

/** One request, to whichever target it goes. */
export interface Asked {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body: AskedBody;
}

export type AskedBody =
  | { readonly kind: "none" }
  | { readonly kind: "json"; readonly text: string }
  /** A form with a recording of this size, which the client makes itself: it is too large to be handed over. */
  | { readonly kind: "form"; readonly model: string; readonly fileBytes: number };

/** Every streamed token carries this byte exactly once, so that a reader counts tokens without parsing, wherever the bytes were cut. */
export const tokenMark = "~";

/** A minute of speech, about a megabyte. */
export const recitalFrames = 2500;

export const tokensPerSecond = 20;
export const tokensPerBurst = 100;

const system = "You are a careful assistant. Answer in plain language, name what you are unsure of, and keep to what was asked.";
const question =
  "Our service answers about forty requests a second and keeps a connection open to each upstream. What should we look at first when the slowest hundredth of them takes ten times as long as the rest?";

export function ask(behaviour: ChatBehaviour, maxTokens = 4096): Asked {
  return json("/v1/chat/completions", {
    model: models[behaviour],
    messages: [
      { role: "system", content: system },
      { role: "user", content: question },
    ],
    temperature: 0.7,
    max_tokens: maxTokens,
    ...(isStreamed(behaviour) ? { stream: true } : {}),
  });
}

/** A chat with an image of this size, which is what makes chats large. */
export function askWithImage(imageBytes: number): Asked {
  const url = `data:image/png;base64,${"iVBORw0K".repeat(Math.ceil(imageBytes / 8))}`;
  return json("/v1/chat/completions", {
    model: models.json,
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: question },
          { type: "image_url", image_url: { url } },
        ],
      },
    ],
  });
}

/** The same in the Messages API. */
export function askInMessages(behaviour: ChatBehaviour, maxTokens = 4096): Asked {
  return json("/v1/messages", {
    model: models[behaviour],
    system,
    messages: [{ role: "user", content: question }],
    temperature: 0.7,
    max_tokens: maxTokens,
    ...(isStreamed(behaviour) ? { stream: true } : {}),
  });
}

function isStreamed(behaviour: ChatBehaviour): boolean {
  return behaviour !== "json" && behaviour !== "refused";
}

export function speak(behaviour: SpeechBehaviour): Asked {
  return json(speechPath, {
    model: models[behaviour],
    voice: "alloy",
    input: "Start with what the slow requests have in common: the same upstream, the same key, the same size.",
    response_format: "mp3",
  });
}

export function upload(fileBytes: number): Asked {
  return { method: "POST", path: transcriptionPath, body: { kind: "form", model: models.uploaded, fileBytes } };
}

/** Answered by the target alone: what it takes longer than at rest is what its own work keeps it from answering. */
export const healthCheck: Asked = { method: "GET", path: "/healthz", body: { kind: "none" } };

export const speechPath = "/v1/audio/speech";
export const transcriptionPath = "/v1/audio/transcriptions";

function json(path: string, fields: object): Asked {
  return { method: "POST", path, body: { kind: "json", text: JSON.stringify(fields) } };
}
