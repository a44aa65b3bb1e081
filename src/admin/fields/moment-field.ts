import { z } from "zod";
import { parsePastMoment, parseMoment } from "../../usage/time-text.ts";
import { invalid, type AdminError } from "../admin-error.ts";

/** A moment in a body, parsed into wall-clock milliseconds. A date alone means its first moment in UTC. */
export const momentField = z.string().transform((text, context) => {
  const ms = parseMoment(text);
  if (ms !== null && ms >= 0) return ms;
  context.addIssue({ code: "custom", message: "must be a date such as 2027-01-01, or a time such as 2027-01-01T12:00:00Z" });
  return z.NEVER;
});

/** The parameters `since` and `until`. */
export const spanQuery = {
  since: z.string().max(64).optional().describe("From this time on: a date, a time with its zone, or how long ago, such as 24h or 7d."),
  until: z.string().max(64).optional().describe("Before this time, in the same format."),
};

export interface Span {
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
}

export function readSpan(
  query: { readonly since?: string | undefined; readonly until?: string | undefined },
  nowMs: number,
): Span | AdminError {
  const sinceMs = query.since === undefined ? null : parsePastMoment(query.since, nowMs);
  const untilMs = query.until === undefined ? null : parsePastMoment(query.until, nowMs);
  if (sinceMs === null && query.since !== undefined) return notAMoment("since");
  if (untilMs === null && query.until !== undefined) return notAMoment("until");
  return { sinceMs, untilMs };
}

function notAMoment(param: string): AdminError {
  return invalid(
    param,
    `The parameter '${param}' must be a date such as 2027-01-01, a time such as 2027-01-01T12:00:00Z, or how long ago, such as 24h or 7d.`,
  );
}
