import type { Dialect } from "../dialect.ts";
import { elevenlabsSpeech } from "./speech.ts";
import { elevenlabsTranscription } from "./transcription.ts";

/** ElevenLabs. It takes keys in the header `xi-api-key`. */
export const elevenlabs: Dialect = {
  name: "elevenlabs",
  transcription: elevenlabsTranscription,
  speech: elevenlabsSpeech,
};
