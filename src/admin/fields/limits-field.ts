import { z } from "zod";
import { budgetNanosMax, budgetPeriods, limitsOf, rateLimitMax } from "../../limits/limit-fields.ts";
import type { Limits } from "../../limits/limits.ts";
import { dollarsField, line } from "./scalars.ts";

const rulesMax = 1000;
const period = z.enum(budgetPeriods);

const rates = {
  rpm: count(rateLimitMax.rpm).optional().describe("Requests per minute."),
  tpm: count(rateLimitMax.tpm).optional().describe("Tokens per minute, of prompts and answers together."),
  audio_seconds: count(rateLimitMax.audio_seconds).optional().describe("Seconds of audio to be transcribed, per minute."),
  characters: count(rateLimitMax.characters).optional().describe("Characters to be spoken, per minute."),
  concurrency: count(rateLimitMax.concurrency).optional().describe("Requests at the same time."),
  budget_usd: dollarsField(budgetNanosMax).optional().describe("Spending limit in US dollars."),
  budget_period: period.optional().describe("What the budget is counted over, in UTC; `total` unless it is given."),
};
const unpriced = z.enum(["refuse", "allow"]);

/** The limits of a key, as the configuration file writes them. What is not given is not limited. */
export const limitsField = withBudget(
  z.strictObject({
    ...rates,
    unpriced: unpriced.optional(),
    per_model: z
      .array(withBudget(z.strictObject({ model: line(256), ...rates })))
      .max(rulesMax)
      .optional(),
  }),
).transform((fields): Limits => limitsOf(fields));

const shownRates = {
  rpm: z.number().optional(),
  tpm: z.number().optional(),
  audio_seconds: z.number().optional(),
  characters: z.number().optional(),
  concurrency: z.number().optional(),
  budget_usd: z.number().optional(),
  budget_period: period.optional(),
};

/** The schema of `limitsView`. */
export const limitsAnswer = z.strictObject({
  ...shownRates,
  unpriced: unpriced.optional(),
  per_model: z.array(z.strictObject({ model: z.string(), ...shownRates })).optional(),
});

function count(max: number) {
  return z.int(`must be a whole number from 1 to ${max}`).min(1).max(max);
}

function withBudget<Fields extends z.ZodType<{ readonly budget_usd?: unknown; readonly budget_period?: unknown }>>(fields: Fields): Fields {
  return fields.refine((given) => given.budget_period === undefined || given.budget_usd !== undefined, {
    path: ["budget_period"],
    message: "needs a budget: give budget_usd too",
  });
}
