import type { LiveCall } from "../telemetry/live/live-call.ts";
import type { LabClientView } from "./lab-client.ts";
import type { LabPromise, PromisedView } from "./scenarios.ts";

/** A call of a run that has ended. */
export interface EndedLabCall {
  readonly client: LabClientView;
  /** Null if the gateway does not know of it. */
  readonly call: LiveCall | null;
}

/** What of a promise was not kept, in sentences; empty if all of it was. `cooled`: the channels that were seen to cool down. */
export function brokenPromises(promise: LabPromise, calls: readonly EndedLabCall[], cooled: ReadonlySet<string>): readonly string[] {
  const [first] = calls;
  if (first === undefined) return ["There was no call."];
  const unexpected = calls.flatMap(({ client }, at) => {
    const views = at === 0 ? promise.client.slice(0, 1) : promise.client;
    return views.some((view) => isPromised(client, view)) ? [] : [`Call ${at + 1}: the client saw ${seen(client)}.`];
  });
  return [...unexpected.slice(0, sentencesMax), ...firstAttempt(promise, first.call), ...notCooled(promise, calls.length, cooled)];
}

/** Fewer calls than that prove nothing. */
function notCooled({ coolsDown }: LabPromise, calls: number, cooled: ReadonlySet<string>): readonly string[] {
  if (coolsDown === null || calls < coolsDown.afterCalls || cooled.has(coolsDown.channel)) return [];
  return [`${coolsDown.channel} did not cool down.`];
}

/** A hundred calls that fail alike need no hundred sentences. */
const sentencesMax = 5;

function isPromised(client: LabClientView, promised: PromisedView): boolean {
  if (client.sees !== promised.sees) return false;
  if (promised.sees === "answer") return true;
  if (client.code !== promised.code) return false;
  if (promised.sees === "interruption") return true;
  // Clients that are told to come back must be told when.
  return client.status === promised.status && (promised.status !== 429 || (client.retryAfterS ?? 0) > 0);
}

function firstAttempt({ firstFailure, answeredBy }: LabPromise, call: LiveCall | null): readonly string[] {
  const [first] = call?.attempts ?? [];
  if (first === undefined) return ["The first call made no attempt."];
  const answering = call?.attempts.find(({ outcome }) => outcome === "answered")?.channel ?? null;
  const isFailed = first.outcome === "failed";
  const isExpected = firstFailure.length === 0 ? !isFailed : isFailed && firstFailure.some((kind) => kind === first.error);
  return [
    ...(isExpected ? [] : [`The first attempt was ${first.outcome}${first.error === null ? "" : ` (${first.error})`}.`]),
    ...(answering === answeredBy ? [] : [`The first call was answered by ${answering ?? "nobody"}.`]),
  ];
}

function seen({ sees, status, code, words }: LabClientView): string {
  switch (sees) {
    case "answer":
      return "the whole answer";
    case "wrong":
      return `${words} words that are not the answer`;
    case "interruption":
      return `${words} words and the error ${code}`;
    case "error":
      return `the error ${code}${status === null ? "" : ` with status ${status}`}`;
  }
}
