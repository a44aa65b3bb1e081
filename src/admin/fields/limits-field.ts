import { z } from "zod";
import { limitsOf, limitFields, type LimitFields, type RateLimitFields } from "../../limits/limit-fields.ts";
import type { Limits } from "../../limits/limits.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import { dollarsField, line } from "./scalars.ts";

/** Up to here, billionths of a dollar are exact. The bounds are those of the configuration file. */
const budgetNanosMax = 9e15;
const rulesMax = 1000;
const period = z.enum(["hour", "day", "week", "month", "total"]);

const rates = {
  rpm: count(1e9).optional().describe("Requests per minute."),
  tpm: count(1e12).optional().describe("Tokens per minute, of prompts and answers together."),
  audio_seconds: count(1e9).optional().describe("Seconds of audio to be transcribed, per minute."),
  characters: count(1e12).optional().describe("Characters to be spoken, per minute."),
  concurrency: count(1e6).optional().describe("Requests at the same time."),
  budget_usd: dollarsField(budgetNanosMax).optional().describe("Spending limit in US dollars."),
  budget_period: period.optional().describe("What the budget is counted over, in UTC; `total` unless it is given."),
};
const unpriced = z.enum(["refuse", "allow"]);

/** What a key may use, in the words of the configuration file; what is not there is not limited. */
export const limitsField = withBudget(
  z.strictObject({
    ...rates,
    unpriced: unpriced.optional(),
    per_model: z
      .array(withBudget(z.strictObject({ model: line(256), ...rates })))
      .max(rulesMax)
      .optional(),
  }),
).transform((words): Limits => limitsOf(words));

const shownRates = {
  rpm: z.number().optional(),
  tpm: z.number().optional(),
  audio_seconds: z.number().optional(),
  characters: z.number().optional(),
  concurrency: z.number().optional(),
  budget_usd: z.number().optional(),
  budget_period: period.optional(),
};

/** The same, as an answer shows it. */
export const limitsAnswer = z.strictObject({
  ...shownRates,
  unpriced: unpriced.optional(),
  per_model: z.array(z.strictObject({ model: z.string(), ...shownRates })).optional(),
});

export function shownLimits(limits: Limits): z.input<typeof limitsAnswer> {
  const { per_model, ...words }: LimitFields = limitFields(limits);
  return { ...inDollars(words), ...(per_model === undefined ? {} : { per_model: per_model.map(inDollars) }) };
}

function inDollars<Words extends RateLimitFields>(words: Words): Words {
  return words.budget_usd === undefined ? words : { ...words, budget_usd: dollarsNumber(words.budget_usd) };
}

function count(max: number) {
  return z.int(`must be a whole number from 1 to ${max}`).min(1).max(max);
}

function withBudget<Words extends z.ZodType<{ readonly budget_usd?: unknown; readonly budget_period?: unknown }>>(words: Words): Words {
  return words.refine((given) => given.budget_period === undefined || given.budget_usd !== undefined, {
    path: ["budget_period"],
    message: "there is no budget to count over it: give budget_usd too",
  });
}
