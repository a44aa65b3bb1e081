import type { Address } from "../../channels/channel.ts";
import { countIn, countRequest, fieldsOf } from "../counted-tokens.ts";
import type { TokenCountCodec } from "../dialect.ts";

/**
 * `:countTokens`. The provider's own API takes a whole request (ai.google.dev/api/tokens), that of the cloud the fields of the prompt
 * (its REST reference: projects.locations.publishers.models.countTokens).
 */
export const generateTokenCount: TokenCountCodec = {
  request(chat, { channel, model }) {
    const fields = fieldsOf(chat);
    if (fields === null || !chat.url.includes(method)) return null;
    const url = chat.url.replace(method, ":countTokens");
    if (!isInCloud(channel.address)) {
      const name = model.startsWith("models/") ? model : `models/${model}`;
      return countRequest(chat, url, { generateContentRequest: { ...fields, model: name } });
    }
    return countRequest(chat, url, Object.fromEntries(Object.entries(fields).filter(([name]) => promptFields.has(name))));
  },
  read: (body) => countIn(body, "totalTokens"),
};

const method = ":generateContent";
const promptFields: ReadonlySet<string> = new Set([
  ...["contents", "systemInstruction", "system_instruction", "tools", "generationConfig", "generation_config"],
]);

/** In the cloud, the path names the publisher of a model. */
export function isInCloud({ chatPath }: Address): boolean {
  return chatPath.includes("/publishers/");
}
