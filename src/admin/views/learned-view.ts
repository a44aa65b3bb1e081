import { z } from "zod";
import type { ChannelLesson } from "../../manage/channel-context.ts";
import { isoMoment } from "../../usage/time-text.ts";
import { moment } from "../fields/scalars.ts";

export const learnedAnswer = z
  .array(
    z.strictObject({
      model: z.string().describe("The upstream's name."),
      max_tokens: z.int().nullable().describe("The most output tokens it is asked for: larger requests are lowered to this."),
      unsupported: z
        .string()
        .nullable()
        .describe("An option that the gateway does not add to requests for it, or does not translate, or formats that it converts itself."),
      until_at: moment,
    }),
  )
  .describe("What this process learned from refusals of the upstream. A lesson is kept for an hour, once a call has confirmed it.");

export function shownLessons(learned: readonly ChannelLesson[]): z.input<typeof learnedAnswer> {
  return learned.map(({ model, maxTokens, unsupported, untilMs }) => ({
    model,
    max_tokens: maxTokens,
    unsupported,
    until_at: isoMoment(untilMs),
  }));
}
