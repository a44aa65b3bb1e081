import type { Adapter } from "./adapter.ts";
import { elevenlabsTranscription } from "./elevenlabs-transcription.ts";

/** ElevenLabs. Its keys are presented bare, in `xi-api-key`. */
export const elevenlabs: Adapter = {
  name: "elevenlabs",
  transcription: elevenlabsTranscription,
};
