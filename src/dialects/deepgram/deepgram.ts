import type { Dialect } from "../dialect.ts";
import { deepgramSpeech } from "./speech.ts";
import { deepgramTranscription } from "./transcription.ts";

/** Deepgram. It takes keys as `Authorization: Token …`, and audio as the bare request body. */
export const deepgram: Dialect = {
  name: "deepgram",
  transcription: deepgramTranscription,
  speech: deepgramSpeech,
};
