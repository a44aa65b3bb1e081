import type { Dialect } from "../dialect.ts";
import { recognition } from "./recognition.ts";
import { synthesis } from "./synthesis.ts";

/** Cloud Text-to-Speech. Its models are the families of its voices, such as `chirp3-hd`. */
export const googleTextToSpeech: Dialect = { name: "google-tts", speech: synthesis };

/** Cloud Speech-to-Text. */
export const googleSpeechToText: Dialect = { name: "google-stt", transcription: recognition };
