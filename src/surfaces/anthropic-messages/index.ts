import type { Surface } from "../../operations/conversation/surface.ts";
import { messageBody } from "./answer.ts";
import { errorBody, errorFrame, errorStatus } from "./errors.ts";
import { readMessagesRequest } from "./request.ts";
import { MessagesWriter, ping } from "./stream.ts";

/** `POST /v1/messages`, as the Anthropic API has it and its clients speak it. */
export const anthropicMessages: Surface = {
  name: "anthropic-messages",
  versionHeader: "anthropic-version",
  requestIdHeader: "request-id",
  parse: readMessagesRequest,
  whole: messageBody,
  writer: (context) => new MessagesWriter(context),
  error: errorBody,
  status: errorStatus,
  errorEvent: errorFrame,
  keepAlive: ping,
};

export { countTokensBody, readCountTokensRequest } from "./count-tokens.ts";
export { modelBody, modelsBody, type ListedModel, type ModelsQuery } from "./models.ts";
