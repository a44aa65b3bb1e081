import type { Operation } from "./operation.ts";

/**
 * What a model is for, of what its channel does, as far as its name tells. A channel of a provider that does everything has models
 * that each do one thing, and their lists do not say which. `isKnown`: it is a known provider, whose models are named for what they
 * do; elsewhere a name that says nothing leaves all of it possible.
 */
export function operationsNamed(model: string, offered: readonly Operation[], isKnown: boolean): readonly Operation[] {
  if (offered.length <= 1) return offered;
  const told: Operation | null = hears.test(model) ? "transcription" : speaks.test(model) ? "speech" : isKnown ? "chat" : null;
  return told !== null && offered.includes(told) ? [told] : offered;
}

const hears = /whisper|transcri|scribe|(?:^|[-_/.])(?:stt|asr)(?:$|[-_/.\d])|speech-to-text/i;
const speaks = /(?:^|[-_/.])tts(?:$|[-_/.\d])|text-to-speech|kokoro|orpheus/i;
