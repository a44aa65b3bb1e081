import type { Dialect } from "../dialect.ts";
import { elevenlabsTranscription } from "./transcription.ts";

/** ElevenLabs. Its keys are presented bare, in `xi-api-key`. */
export const elevenlabs: Dialect = {
  name: "elevenlabs",
  transcription: elevenlabsTranscription,
};
