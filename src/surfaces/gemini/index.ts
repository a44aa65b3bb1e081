import type { AnswerFormat } from "../../operations/conversation/surface.ts";
import { generateErrors, listedErrors } from "./errors.ts";
import { listedBody, responseBody } from "./response.ts";
import { GenerateWriter } from "./stream.ts";

/** `generateContent` and `streamGenerateContent`, as the Gemini API has them and its clients speak them. */
export const generateAnswers: AnswerFormat = {
  name: "gemini",
  whole: responseBody,
  writer: (context) => new GenerateWriter(context),
  ...generateErrors,
};

/** `streamGenerateContent` of a client that asks for no events: it gets one list of responses, when all of it is there. */
export const listedAnswers: AnswerFormat = { ...generateAnswers, ...listedErrors, whole: listedBody };

export { readTokenCount, tokenCountBody } from "./count-tokens.ts";
export { modelInfoBody, modelListBody, type ModelPageQuery } from "./models.ts";
export { readGenerateRequest, type GeneratePath } from "./request.ts";
