import { failure, type Failure } from "../../operations/failure.ts";

/** A voice as the API names it. */
export interface CloudVoice {
  readonly name: string;
  readonly languageCode: string;
}

/**
 * The voice for a request. A voice's name holds its language and its family, such as `de-DE-Neural2-F`. The family decides the price, so it
 * is the model; a voice of another one would cost something else than the client asked for. A name that is none of this API, such as one
 * of the OpenAI API, gets the model's usual voice.
 */
export function cloudVoice(name: string, model: string): CloudVoice | Failure {
  const languageCode = languageOf(name);
  if (languageCode !== null) {
    const family = familyOf(name, languageCode);
    return family === model ? { name, languageCode } : otherFamily(name, family, model);
  }
  const usual = usualVoices.get(model);
  return usual === undefined ? otherFamily(name, null, model) : { name: usual, languageCode: "en-US" };
}

/** Of a name such as `cmn-CN-Chirp3-HD-Kore`; null if it is no such name. */
function languageOf(name: string): string | null {
  return name.length > nameLengthMax ? null : (/^([a-z]{2,3}-[A-Z\d]{2,4})-\w+(?:-\w+)+$/.exec(name)?.[1] ?? null);
}

const nameLengthMax = 100;

function familyOf(name: string, languageCode: string): string {
  return name.slice(languageCode.length + 1, name.lastIndexOf("-")).toLowerCase();
}

/** https://cloud.google.com/text-to-speech/docs/list-voices-and-types */
const usualVoices: ReadonlyMap<string, string> = new Map([
  ["chirp3-hd", "en-US-Chirp3-HD-Kore"],
  ["chirp-hd", "en-US-Chirp-HD-F"],
  ["neural2", "en-US-Neural2-F"],
  ["wavenet", "en-US-Wavenet-F"],
  ["standard", "en-US-Standard-F"],
  ["studio", "en-US-Studio-O"],
]);

/** Another channel may have the voice. */
function otherFamily(name: string, family: string | null, model: string): Failure {
  const shown = name.slice(0, nameLengthMax);
  const belongs = family === null ? `is no voice of the model '${model}'` : `belongs to the model '${family}'`;
  return failure("unsupported", "the voice belongs to another model", {
    message: `Invalid value for 'voice': '${shown}' ${belongs}. A voice is named with its language and model, such as 'en-US-Chirp3-HD-Kore'.`,
    status: 400,
    type: "invalid_request_error",
    code: "invalid_value",
    param: "voice",
  });
}
