import { z } from "zod";
import type { LabCallFacts, LabChannelFacts, LabRunFacts, LabScenarioFacts } from "../lab-services.ts";
import { attemptAnswer, shownAttempt } from "./attempt-view.ts";

export const labMode = z.enum(["streamed", "whole"]);

export const labScenarioAnswer = z.strictObject({
  name: z.string(),
  title: z.string(),
  fault: z.string().describe("What the first channel does."),
  expected: z.string().describe("What should happen."),
  modes: z.array(labMode).describe("How its calls may be made, the usual way first."),
  channels: z.array(z.strictObject({ name: z.string(), behaviour: z.string() })).describe("In the order in which they are asked."),
});

export const labRunAnswer = z.strictObject({
  id: z.string(),
  scenario: z.string(),
  mode: labMode,
  calls: z.int(),
  rate: z.number(),
  state: z.enum(["running", "ended", "stopped"]),
  started_at: z.iso.datetime(),
  as_promised: z.boolean().nullable().describe("Null while it runs, and if it was stopped."),
  broken: z.array(z.string()).describe("What was not as promised."),
  channels: z.array(
    z.strictObject({
      name: z.string(),
      behaviour: z.string(),
      asked: z.int().describe("How many requests it got."),
      breaker: z.strictObject({ state: z.string(), cause: z.string(), for_ms: z.int() }).nullable().describe("Null: it may be asked."),
    }),
  ),
  results: z.array(
    z.strictObject({
      number: z.int(),
      state: z.string(),
      took_ms: z.int(),
      first_content_ms: z.int().nullable(),
      attempts: z.array(attemptAnswer),
      client: z
        .strictObject({
          sees: z.enum(["answer", "error", "interruption", "wrong"]),
          status: z.int().nullable(),
          code: z.string().nullable(),
          words: z.int(),
          retry_after_s: z.number().nullable(),
        })
        .nullable()
        .describe("What its client saw; null while it runs."),
    }),
  ),
});

export type LabScenarioView = z.output<typeof labScenarioAnswer>;
export type LabRunView = z.output<typeof labRunAnswer>;

export function shownScenario({ name, title, fault, expected, modes, channels }: LabScenarioFacts): LabScenarioView {
  return {
    name,
    title,
    fault,
    expected,
    modes: [...modes],
    channels: channels.map((one) => ({ name: one.name, behaviour: one.behaviour })),
  };
}

export function shownRun({ id, request, state, startedMs, calls, channels, broken }: LabRunFacts): LabRunView {
  return {
    id,
    scenario: request.scenario.name,
    mode: request.mode,
    calls: request.calls,
    rate: request.rate,
    state,
    started_at: new Date(startedMs).toISOString(),
    as_promised: broken === null ? null : broken.length === 0,
    broken: [...(broken ?? [])],
    channels: channels.map(shownChannel),
    results: calls.map(shownResult),
  };
}

function shownChannel({ name, behaviour, asked, breaker }: LabChannelFacts): LabRunView["channels"][number] {
  return {
    name,
    behaviour,
    asked,
    breaker: breaker === null ? null : { state: breaker.state, cause: breaker.cause, for_ms: Math.round(breaker.forMs) },
  };
}

function shownResult({ call, client }: LabCallFacts, at: number): LabRunView["results"][number] {
  return {
    number: at + 1,
    state: call?.state ?? "running",
    took_ms: Math.round(call?.tookMs ?? 0),
    first_content_ms: call?.firstContentMs == null ? null : Math.round(call.firstContentMs),
    attempts: (call?.attempts ?? []).map(shownAttempt),
    client:
      client === null
        ? null
        : { sees: client.sees, status: client.status, code: client.code, words: client.words, retry_after_s: client.retryAfterS },
  };
}
