import type { Adapter } from "../dialect.ts";
import { elevenlabsTranscription } from "./transcription.ts";

/** ElevenLabs. Its keys are presented bare, in `xi-api-key`. */
export const elevenlabs: Adapter = {
  name: "elevenlabs",
  transcription: elevenlabsTranscription,
};
