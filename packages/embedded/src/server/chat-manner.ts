import { loadLlama, type ChatModel, type ChatTurn } from "../addons/llama.ts";
import type { EmbeddedModel } from "../catalog.ts";
import { loadStories } from "../chat/stories.ts";
import { conversationOf, promptOf } from "./chat-prompt.ts";
import type { Refusal } from "./refusal.ts";
import { isAdded } from "./served-models.ts";

/** How one kind of chat model is dealt with. */
export interface ChatManner {
  load(directory: string): Promise<ChatModel>;
  /** What the model heeds of a request's messages. */
  read(messages: unknown): readonly ChatTurn[] | Refusal;
  /** For who does not say: what those who made the model use. With all of its vocabulary allowed it tends to lose the thread. */
  readonly temperatureDefault: number;
  readonly topPDefault: number;
}

const conversation: ChatManner = { load: loadLlama, read: conversationOf, temperatureDefault: 0.7, topPDefault: 0.95 };

const story: ChatManner = {
  async load(directory) {
    const teller = await loadStories(directory);
    return {
      contextMax: teller.contextMax,
      prompt: (turns) => teller.prompt(turns.at(-1)?.content ?? ""),
      tell: (prompt, wishes) => teller.tell(prompt, wishes),
      // There is nothing to free that the collector would not find.
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

/** The chat model that is built in tells stories; those that are added converse. */
export function mannerOf(model: EmbeddedModel): ChatManner {
  return isAdded(model) ? conversation : story;
}
