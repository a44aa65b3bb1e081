import { z } from "zod";
import { operations } from "../../operations/operation.ts";
import { outcomeMarks } from "../../usage/call-outcome.ts";
import { receiptStates } from "../../usage/receipt.ts";
import { moment } from "../fields/scalars.ts";

const figures = {
  prompt_tokens: z.number().nullable(),
  cached_tokens: z.number().nullable(),
  completion_tokens: z.number().nullable(),
  reasoning_tokens: z.number().nullable(),
  audio_seconds: z.number().nullable(),
  characters: z.number().nullable(),
};

/** A call in one line. */
export const receiptSummaryAnswer = z.strictObject({
  id: z.string(),
  request_id: z.string().describe("What the client was told as `x-request-id`."),
  key: z.string(),
  key_name: z.string().nullable(),
  groups: z.array(z.string()).describe("The ids of the groups that it counts for, the nearest first."),
  operation: z.enum(operations),
  model: z.string(),
  channel: z.string().nullable().describe("The channel that answered; null if none did."),
  upstream_model: z.string().nullable(),
  stream: z.boolean(),
  status: z.int(),
  state: z.enum(receiptStates).describe("`unknown`: the process died during the call."),
  error: z.string().nullable(),
  started_at: moment,
  took_ms: z.number(),
  first_content_ms: z.number().nullable(),
  ...figures,
  cost_usd: z.number().nullable().describe("What upstreams will charge for all attempts; null if a price is unknown."),
  cost_uncertain: z.boolean().describe("An upstream may have charged for an attempt without reporting its usage."),
  estimated: z.boolean().describe("Some figures are estimates of the gateway."),
  partial: z.boolean().describe("The answer is incomplete, because the stream broke off or the client left."),
  warning: z.string().nullable().describe("Why the answer may be less than expected: `truncated_audio`, the upload was incomplete."),
  outcomes: z.array(z.enum(outcomeMarks)).describe("What was special about the call."),
  attempts: z.int(),
});

const attempt = z.strictObject({
  channel: z.string(),
  model: z.string().describe("The upstream's name."),
  after_ms: z.number().describe("After the call's start."),
  took_ms: z.number(),
  outcome: z.enum(["answered", "failed", "abandoned"]),
  status: z.int().nullable(),
  error: z.string().nullable(),
  blame: z.enum(["client", "channel", "gateway"]).nullable().describe("Who must act."),
  hedge: z.boolean().describe("It was started while a slow attempt was still running."),
  ...figures,
  cost_usd: z.number().nullable(),
  cost_uncertain: z.boolean(),
  estimated: z.boolean(),
});

const step = z.strictObject({
  channel: z.string(),
  model: z.string(),
  tier: z.int().nullable(),
  verdict: z.string().describe("`taken`, `probed`, `ready` (not needed), or why it was skipped."),
  cause: z.string().nullable().describe("The kind of failure that it cooled down for."),
  for_ms: z.number().nullable().describe("How long the cool-down still lasted when the call began."),
});

/** A call in full. */
export const receiptAnswer = receiptSummaryAnswer.omit({ ...keysOf(figures), attempts: true }).extend({
  delivered: z.strictObject(figures).describe("What reached the client."),
  generated_tokens: z.number().nullable().describe("Output tokens of all attempts, delivered or not."),
  billed_usd: z.number().nullable().describe("What upstreams will charge for all attempts; null if a price is unknown."),
  cache_saved_usd: z
    .number()
    .nullable()
    .describe("What caches of the upstream saved, less what filling them cost; null if none was used or the price is unknown."),
  hedge_waste_usd: z.number().describe("The part of it that hedged attempts cost which did not answer."),
  attempts: z.array(attempt),
  plan: z.array(step).nullable().describe("The possible deployments, and why each was tried or not; null if there was no choice."),
});

function keysOf<Shape extends object>(shape: Shape): { readonly [K in keyof Shape]: true } {
  return Object.fromEntries(Object.keys(shape).map((name) => [name, true])) as { readonly [K in keyof Shape]: true };
}
