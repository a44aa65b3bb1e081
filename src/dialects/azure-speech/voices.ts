import type { Voices } from "../../channels/channel.ts";

/** Voices that exist in every region, most of them multilingual, stand for those of the OpenAI API. All others go by their own names. */
const standIns: readonly (readonly [name: string, voice: string])[] = [
  ["alloy", "en-US-AvaMultilingualNeural"],
  ["ash", "en-US-AndrewMultilingualNeural"],
  ["ballad", "en-US-BrianMultilingualNeural"],
  ["cedar", "en-US-AndrewMultilingualNeural"],
  ["coral", "en-US-EmmaMultilingualNeural"],
  ["echo", "en-US-BrianMultilingualNeural"],
  ["fable", "en-GB-RyanNeural"],
  ["marin", "en-US-EmmaMultilingualNeural"],
  ["nova", "en-US-EmmaMultilingualNeural"],
  ["onyx", "en-US-AndrewMultilingualNeural"],
  ["sage", "en-US-AvaMultilingualNeural"],
  ["shimmer", "en-US-JennyMultilingualNeural"],
  ["verse", "en-US-BrianMultilingualNeural"],
];

export const azureVoices: Voices = { names: new Map(standIns), unknown: "pass", fallback: null };
