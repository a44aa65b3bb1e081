import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { SpeechEventReader } from "../readers/speech-event-reader.ts";
import { encodedSpeech, foreignSpeech } from "../speech/foreign-speech.ts";
import { explainSpeech } from "../speech/speech-errors.ts";
import { readGeminiAnswer } from "./answer.ts";
import { generateRequest } from "./generate-request.ts";
import { GeminiAudio } from "./audio-events.ts";

/** Speech of the models that speak: https://ai.google.dev/gemini-api/docs/speech-generation */
export const geminiSpeech: Codec<SpeechRequest> = { encode, explain: explainSpeech };

function encode(ask: SpeechRequest, target: Target): EncodedRequest | Failure {
  const speech = foreignSpeech(ask, target, ["pcm"]);
  if (isFailure(speech)) return speech;
  const body = {
    contents: [{ role: "user", parts: [{ text: spokenPrompt(ask.input, speech.instructions) }] }],
    generationConfig: {
      responseModalities: ["AUDIO"],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: speech.voice } } },
    },
  };
  return encodedSpeech(ask, {
    request: generateRequest(encoder.encode(JSON.stringify(body)), true, target),
    asked: speech.format,
    voice: speech.voice,
    carried: ["instructions"],
    answer: (conversion) => ({
      kind: "stream",
      reader: (_head, tools) => new SpeechEventReader(conversion, tools, new GeminiAudio()),
      instead: insteadOfEvents,
    }),
  });
}

const encoder = new TextEncoder();

/**
 * The text after words that say what to do with it. The models have no other place for instructions, and without such words they refuse
 * some texts, answer questions in place of reading them, or read the instructions aloud.
 */
export function spokenPrompt(input: string, instructions: string | null): string {
  const how = instructions === null ? "" : `\n\nHow to speak (do not read this aloud):\n${instructions}`;
  return `Read the transcript below aloud, word for word, and say nothing else.${how}\n\nTranscript:\n${input}`;
}

function insteadOfEvents(body: Uint8Array): Failure {
  const whole = readGeminiAnswer(body, null);
  return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for");
}
