/** The APIs that clients speak. */
export {
  anthropicMessages as messagesSurface,
  countTokensBody,
  modelBody,
  modelsBody,
  readCountTokensRequest,
} from "./anthropic-messages/index.ts";
export {
  generateAnswers,
  listedAnswers,
  modelInfoBody,
  modelListBody,
  readGenerateRequest,
  readTokenCount,
  tokenCountBody,
} from "./gemini/index.ts";
export { openaiErrors as defaultErrors } from "./openai-chat/errors.ts";
export { openaiChat as chatSurface } from "./openai-chat/index.ts";
export { openaiResponses as responsesSurface } from "./openai-responses/index.ts";
