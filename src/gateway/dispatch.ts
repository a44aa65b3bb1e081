import type { Call } from "./call.ts";
import type { CallResult } from "./call-result.ts";
import type { Gateway } from "./gateway.ts";
import { serveLongSpeech } from "./long-speech/long-speech.ts";
import { serveLongTranscription } from "./long-transcription/long-transcription.ts";
import { serve } from "./serve.ts";

/** Serves a call: with one upstream request at a time, or in parts if its input is too long for one. */
export function dispatch(call: Call, gateway: Gateway): Promise<CallResult> {
  if (!call.split) return serve(call, gateway);
  return call.ask.operation === "transcription" ? serveLongTranscription(call, gateway) : serveLongSpeech(call, gateway);
}
