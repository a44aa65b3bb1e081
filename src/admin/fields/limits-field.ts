import { z } from "zod";
import { budgetNanosMax, budgetPeriods, limitsOf, rateLimitMax } from "../../limits/limit-fields.ts";
import type { Limits } from "../../limits/limits.ts";
import { operations } from "../../operations/operation.ts";
import { dollarsField, line } from "./scalars.ts";

const rulesMax = 1000;
const budgetsMax = 100;
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
const patterns = z.array(line(256)).min(1).max(1000);
const operation = z.enum(operations);
const selected = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "must be a name of letters, digits, dots and dashes"),
  models: patterns.optional().describe("The models it is for, patterns with `*`; every model unless they are given."),
  operations: z.array(operation).min(1).max(operations.length).optional(),
  channels: patterns.optional().describe("The channels it is for, by name or tag, patterns with `*`."),
  budget_usd: dollarsField(budgetNanosMax),
  budget_period: period.optional(),
});

/** The limits of a key, as the configuration file writes them. What is not given is not limited. */
export const limitsField = withBudget(
  z.strictObject({
    ...rates,
    unpriced: unpriced.optional(),
    budgets: z
      .array(selected)
      .max(budgetsMax)
      .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, "must have different names")
      .optional()
      .describe("Further budgets, each for some of the calls."),
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
  budgets: z
    .array(
      z.strictObject({
        name: z.string(),
        models: z.array(z.string()).optional(),
        operations: z.array(operation).optional(),
        channels: z.array(z.string()).optional(),
        budget_usd: z.number(),
        budget_period: period.optional(),
      }),
    )
    .optional(),
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
