import type { AnswerFormat } from "../../operations/conversation/surface.ts";
import { generateErrors, listedErrors } from "./errors.ts";
import { responseBody } from "./response.ts";
import { eventFraming, GenerateWriter, listFraming } from "./stream.ts";

/** `generateContent` and `streamGenerateContent`, as the Gemini API has them and its clients speak them. */
export const generateAnswers: AnswerFormat = {
  name: "gemini",
  whole: responseBody,
  writer: (context) => new GenerateWriter(context, eventFraming),
  ...generateErrors,
};

/** `streamGenerateContent` of a client that asks for no events: it gets one list of responses, each as soon as it is there. */
export const listedAnswers: AnswerFormat = {
  ...generateAnswers,
  ...listedErrors,
  writer: (context) => new GenerateWriter(context, listFraming),
};

export { readTokenCount, tokenCountBody } from "./count-tokens.ts";
export { modelInfoBody, modelListBody, type ModelPageQuery } from "./models.ts";
export { readGenerateRequest, type GeneratePath } from "./request.ts";
