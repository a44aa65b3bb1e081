import type { Surface } from "../../operations/conversation/surface.ts";
import { errorBody, errorFrame, keepAlive, earlyKeepAlive } from "./errors.ts";
import { readResponsesRequest } from "./request.ts";
import { echoOf, responseBody } from "./response.ts";
import { ResponsesWriter } from "./stream.ts";

/** `POST /v1/responses` of the OpenAI API, without stored responses. */
export const openaiResponses: Surface = {
  name: "openai-responses",
  parse: readResponsesRequest,
  echo: echoOf,
  whole: responseBody,
  writer: (context) => new ResponsesWriter(context),
  error: errorBody,
  errorEvent: errorFrame,
  keepAlive,
  earlyKeepAlive,
};
