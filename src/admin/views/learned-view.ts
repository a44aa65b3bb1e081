import { z } from "zod";
import type { ChannelLesson } from "../../manage/channel-context.ts";
import { isoMoment } from "../../usage/time-text.ts";
import { moment } from "../fields/scalars.ts";

export const learnedAnswer = z
  .array(
    z.strictObject({
      model: z.string().describe("The upstream's name."),
      max_tokens: z.int().nullable().describe("The most output tokens it is asked for: requests for more are lowered to it."),
      unsupported: z
        .string()
        .nullable()
        .describe("An option that the gateway does not add to requests for it, or formats that it makes itself of another one."),
      until_at: moment,
    }),
  )
  .describe("What refusals of the upstream taught this process, each confirmed by a call that was served by it, and for an hour.");

export function shownLessons(learned: readonly ChannelLesson[]): z.input<typeof learnedAnswer> {
  return learned.map(({ model, maxTokens, unsupported, untilMs }) => ({
    model,
    max_tokens: maxTokens,
    unsupported,
    until_at: isoMoment(untilMs),
  }));
}
