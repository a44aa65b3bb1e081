import type { Surface } from "../../operations/conversation/surface.ts";
import { errorBody, errorFrame, keepAlive, earlyKeepAlive } from "./errors.ts";
import { itemReferences, letsStore } from "./references.ts";
import { readResponsesRequest } from "./request.ts";
import { echoOf, responseBody } from "./response.ts";
import { ResponsesWriter } from "./stream.ts";

/** `POST /v1/responses` of the OpenAI API. Items of answers can be referred to for a while; responses are not stored. */
export const openaiResponses: Surface = {
  name: "openai-responses",
  parse: readResponsesRequest,
  references: itemReferences,
  echo: echoOf,
  mayKeep: letsStore,
  whole: responseBody,
  writer: (context) => new ResponsesWriter(context),
  error: errorBody,
  errorEvent: errorFrame,
  keepAlive,
  earlyKeepAlive,
};
