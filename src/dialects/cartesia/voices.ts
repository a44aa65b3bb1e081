import type { Voices } from "../../channels/channel.ts";

/** Voices that https://docs.cartesia.ai/build-with-cartesia/capability-guides/choosing-a-voice recommends, by the names that they have there. */
const own = {
  Katie: "f786b574-daa5-4673-aa0c-cbe3e8534c02",
  Jacqueline: "9626c31c-bec5-4cca-baa8-f8ba9e84c8bc",
  Tessa: "6ccbfb76-1fc6-48f7-b71d-91ac6298247b",
  Ronald: "5ee9feff-1265-424a-9d7f-8e4d431a12c7",
  Carson: "86e30c1d-714b-4074-a1f2-1cb6b552fb49",
  Blake: "a167e0f3-df7e-4d52-a9c3-f949145efdab",
};

/** Which of them stand for the voices of the OpenAI API. Any other name is passed on, as the id of a voice. */
export const cartesiaVoices: Voices = {
  names: new Map([
    ["alloy", own.Katie],
    ["ash", own.Carson],
    ["ballad", own.Blake],
    ["cedar", own.Ronald],
    ["coral", own.Jacqueline],
    ["echo", own.Carson],
    ["fable", own.Blake],
    ["marin", own.Tessa],
    ["nova", own.Tessa],
    ["onyx", own.Ronald],
    ["sage", own.Katie],
    ["shimmer", own.Jacqueline],
    ["verse", own.Blake],
    ...Object.entries(own),
  ]),
  unknown: "pass",
  fallback: null,
};
