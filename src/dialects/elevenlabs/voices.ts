import type { Voices } from "../../channels/channel.ts";

/** The voices that every account has (https://elevenlabs.io/docs/capabilities/voices), by the names that they have there. */
const own = {
  Sarah: "EXAVITQu4vr4xnSDxMaL",
  Laura: "FGY2WhTYpPnrIDTdsKH5",
  Jessica: "cgSgspJ2msm6clMCkdW9",
  Matilda: "XrExE9yKIg1WjnnlVkGX",
  Alice: "Xb7hH8MSUJpSbSDYk0k2",
  Lily: "pFZP5JQG7iQjIQuC4Bku",
  River: "SAz9YHcvj6GT2YYXdXww",
  George: "JBFqnCBsd6RMkjVDRZzb",
  Roger: "CwhRBWXzGAHq8TQ4Fs17",
  Charlie: "IKne3meq5aSn9XLyUdCD",
  Callum: "N2lVS1w4EtoT3dr4eOWO",
  Liam: "TX3LPaxmHKxFdv7VOQHJ",
  Will: "bIHbv24MWmeRgasZH58o",
  Eric: "cjVigY5qzO86Huf0OWal",
  Chris: "iP95p4xoKVk53GoZ742B",
  Brian: "nPczCjzI2devNBz1zQrb",
  Daniel: "onwK4e9ZLuTAKqWW03F9",
  Bill: "pqHfZKP75CvOlQylNhV4",
};

/** Which of them stand for the voices of the OpenAI API. Any other name is passed on, as the id of a voice. */
export const elevenlabsVoices: Voices = {
  names: new Map([
    ["alloy", own.River],
    ["ash", own.Eric],
    ["ballad", own.Callum],
    ["cedar", own.Brian],
    ["coral", own.Jessica],
    ["echo", own.Will],
    ["fable", own.George],
    ["marin", own.Sarah],
    ["nova", own.Laura],
    ["onyx", own.Bill],
    ["sage", own.Alice],
    ["shimmer", own.Lily],
    ["verse", own.Roger],
    ...Object.entries(own),
  ]),
  unknown: "pass",
  fallback: null,
};
