import type { Dialect } from "../dialect.ts";
import { assemblyaiTranscription } from "./transcription.ts";

/** AssemblyAI. It takes keys as the bare `Authorization` header, and transcribes in jobs that have to be polled. */
export const assemblyai: Dialect = {
  name: "assemblyai",
  transcription: assemblyaiTranscription,
};
