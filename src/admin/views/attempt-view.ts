import { z } from "zod";
import type { LiveCallFacts } from "../services.ts";

/** An attempt of a call that runs, or has just ended. */
export const attemptAnswer = z.strictObject({
  channel: z.string(),
  model: z.string(),
  after_ms: z.int().describe("From the start of the call."),
  took_ms: z.int(),
  outcome: z.string().describe("`running`, `answered`, `failed` or `abandoned`."),
  error: z.string().nullable(),
  hedge: z.boolean(),
});

export function shownAttempt(attempt: LiveCallFacts["attempts"][number]): z.output<typeof attemptAnswer> {
  const { channel, model, afterMs, tookMs, outcome, error, hedge } = attempt;
  return { channel, model, after_ms: Math.round(afterMs), took_ms: Math.round(tookMs), outcome, error, hedge };
}
