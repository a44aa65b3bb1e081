import { loadLlama, type ChatModel, type ChatTurn } from "../addons/llama.ts";
import type { EmbeddedModel } from "../catalog.ts";
import { loadStories } from "../chat/stories.ts";
import { conversationOf, promptOf } from "./chat-prompt.ts";
import type { RequestError } from "./request-error.ts";
import { isAdded } from "./served-models.ts";

/** How one family of chat models is loaded and prompted. */
export interface ChatBackend {
  load(directory: string): Promise<ChatModel>;
  /** The messages of a request as the model uses them. */
  read(messages: unknown): readonly ChatTurn[] | RequestError;
  /** The defaults of the model's authors. With its whole vocabulary allowed, the model tends to lose the thread. */
  readonly temperatureDefault: number;
  readonly topPDefault: number;
}

const conversation: ChatBackend = { load: loadLlama, read: conversationOf, temperatureDefault: 0.7, topPDefault: 0.95 };

const story: ChatBackend = {
  async load(directory) {
    const stories = await loadStories(directory);
    return {
      contextMax: stories.contextMax,
      prompt: (turns) => stories.prompt(turns.at(-1)?.content ?? ""),
      generate: (prompt, options) => stories.generate(prompt, options),
      // The garbage collector frees the model.
      close: async () => {},
    };
  },
  read(messages) {
    const text = promptOf(messages);
    return typeof text === "string" ? [{ role: "user", content: text }] : text;
  },
  temperatureDefault: 1,
  topPDefault: 0.9,
};

/** The built-in chat model continues stories; the added ones hold conversations. */
export function backendOf(model: EmbeddedModel): ChatBackend {
  return isAdded(model) ? conversation : story;
}
