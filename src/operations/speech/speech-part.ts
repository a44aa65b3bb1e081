import { failure, type Failure } from "../failure.ts";
import { readSpeechRequest, type SpeechRequest } from "./speech-request.ts";
import { setEvery, splice } from "../splice.ts";

/**
 * The request for one part of a long text: the client's own, with this text and with bare samples as the format, for
 * only those can be put together. Where the client wants events, upstreams that know them are asked for them, because
 * they count tokens in them; the audio is taken out all the same.
 */
export function speechPart(ask: SpeechRequest, input: string): SpeechRequest | Failure {
  const body = splice(ask.body, [...setEvery(ask, "input", input), ...setEvery(ask, "response_format", "pcm")]);
  const part = readSpeechRequest(body, { charactersMax: ask.characters });
  return "blame" in part ? part : { ...part, events: false };
}

/** Everything beside the text is sent with every part, so there is a limit to it. */
export function tooMuchToRepeat(ask: SpeechRequest): Failure | null {
  const texts = ask.members.filter(({ key }) => key === "input").reduce((sum, { start, end }) => sum + end - start, 0);
  if (ask.body.length - texts <= repeatedBytesMax) return null;
  return failure("invalid_request", "too much beside a long input", {
    message: `A long 'input' is spoken in parts, and at most ${repeatedBytesMax} bytes may stand beside it, for they are sent with every part.`,
    status: 400,
    type: "invalid_request_error",
  });
}

const repeatedBytesMax = 4 * 1024 * 1024;
