import { chatWire } from "./chat.ts";
import { cohereWire } from "./cohere.ts";
import { converseWire } from "./converse.ts";
import { generateContentWire } from "./generate-content.ts";
import { messagesWire } from "./messages.ts";
import { responsesWire } from "./responses.ts";
import type { ScriptedWire } from "./wire.ts";

/** The APIs that chats of an upstream may speak, by the names of their dialects. */
export const wires = {
  openai: chatWire,
  anthropic: messagesWire,
  "openai-responses": responsesWire,
  gemini: generateContentWire,
  "bedrock-converse": converseWire,
  cohere: cohereWire,
} as const satisfies Readonly<Record<string, ScriptedWire>>;
