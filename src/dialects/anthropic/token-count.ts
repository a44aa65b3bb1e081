import { countIn, countRequest, fieldsOf } from "../counted-tokens.ts";
import type { TokenCountCodec } from "../dialect.ts";
import { countUrl, type AnthropicHost } from "./hosts.ts";

/**
 * `POST /v1/messages/count_tokens` on the host. It takes the prompt and what changes it, and refuses the fields that are about the answer
 * (the "Count tokens in a Message" page of the API reference).
 */
export function messagesTokenCount(host: AnthropicHost): TokenCountCodec {
  return {
    request(chat, { channel, model }) {
      const fields = fieldsOf(chat);
      return fields === null ? null : countRequest(chat, countUrl(host, channel.address, model), host.counts.body(fields, model));
    },
    read: (body) => countIn(body, host.counts.answer),
  };
}
