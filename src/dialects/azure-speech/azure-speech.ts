import type { Dialect } from "../dialect.ts";
import { azureTextToSpeech } from "./speech.ts";
import { azureTranscription } from "./transcription.ts";

/** Azure Speech, which is not the API of the deployments at Azure. It takes keys in the header `Ocp-Apim-Subscription-Key`. */
export const azureSpeech: Dialect = {
  name: "azure-speech",
  transcription: azureTranscription,
  speech: azureTextToSpeech,
};
