import type { Voices } from "../../channels/channel.ts";

/** The usual voices, named after stars and moons: https://ai.google.dev/gemini-api/docs/speech-generation#voices */
export const starNames: readonly string[] = (
  "Kore Puck Zephyr Charon Fenrir Leda Orus Aoede Callirrhoe Autonoe Enceladus Iapetus Umbriel Algieba Despina Erinome Algenib " +
  "Rasalgethi Laomedeia Achernar Alnilam Schedar Gacrux Pulcherrima Achird Zubenelgenubi Vindemiatrix Sadachbia Sadaltager Sulafat"
).split(" ");

/** Which of them stand for the voices of the OpenAI API. Any other name is passed on: newer models have many more voices. */
export const geminiVoices: Voices = {
  names: new Map([
    ["alloy", "Kore"],
    ["ash", "Charon"],
    ["ballad", "Iapetus"],
    ["cedar", "Algieba"],
    ["coral", "Leda"],
    ["echo", "Puck"],
    ["fable", "Fenrir"],
    ["marin", "Despina"],
    ["nova", "Aoede"],
    ["onyx", "Orus"],
    ["sage", "Sulafat"],
    ["shimmer", "Zephyr"],
    ["verse", "Umbriel"],
    ...starNames.map((name) => [name, name] as const),
  ]),
  unknown: "pass",
  fallback: null,
};
