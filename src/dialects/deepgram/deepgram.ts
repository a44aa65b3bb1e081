import type { Dialect } from "../dialect.ts";
import { deepgramTranscription } from "./transcription.ts";

/** Deepgram. Its keys are presented as `Authorization: Token …`, and its audio goes up bare. */
export const deepgram: Dialect = {
  name: "deepgram",
  transcription: deepgramTranscription,
};
