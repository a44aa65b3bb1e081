import { failure, type Failure } from "../failure.ts";
import { readSpeechRequest, type SpeechRequest } from "./speech-request.ts";
import { setEvery, splice } from "../splice.ts";

/**
 * The request for one part of a long text: the client's own with this text, and with PCM as the format, because only PCM can be joined.
 * If the client wants events, upstreams that support them are asked for events, which report tokens; the audio is extracted from them.
 */
export function speechPart(ask: SpeechRequest, input: string): SpeechRequest | Failure {
  const body = splice(ask.body, [...setEvery(ask, "input", input), ...setEvery(ask, "response_format", "pcm")]);
  const part = readSpeechRequest(body, { charactersMax: ask.characters });
  return "blame" in part ? part : { ...part, events: false };
}

/** Everything besides the text is sent with every part, so its size is limited. */
export function tooMuchToRepeat(ask: SpeechRequest): Failure | null {
  const texts = ask.members.filter(({ key }) => key === "input").reduce((sum, { start, end }) => sum + end - start, 0);
  if (ask.body.length - texts <= repeatedBytesMax) return null;
  return failure("invalid_request", "too much beside a long input", {
    message: `A long 'input' is split, and all other fields are sent with every part: together they may have at most ${repeatedBytesMax} bytes.`,
    status: 400,
    type: "invalid_request_error",
  });
}

const repeatedBytesMax = 4 * 1024 * 1024;
