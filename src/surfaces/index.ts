/** The APIs that clients speak beside the OpenAI chat API, which passes as it is. */
export {
  anthropicMessages as messagesSurface,
  countTokensBody,
  modelBody,
  modelsBody,
  readCountTokensRequest,
} from "./anthropic-messages/index.ts";
export { openaiResponses as responsesSurface } from "./openai-responses/index.ts";
