import type { AttemptReceipt, Receipt } from "../../src/usage/receipt.ts";
import { estimateTokens } from "../../src/usage/token-estimate.ts";
import type { Attempt, Ledger } from "./chaos/ledger.ts";
import { heldUpMs } from "./held-up.ts";
import { nanosOf } from "./receipts.ts";

/** One attempt as its upstream knows it. */
export interface Witnessed {
  readonly truth: Attempt;
  /** The gateway may have taken it for a connection that had gone stale, and asked again at once. */
  readonly repeatable: boolean;
}

export function witnessed(ledger: Ledger, attempts: readonly Attempt[]): readonly Witnessed[] {
  return attempts.map((truth) => ({ truth, repeatable: isRepeatable(truth, ledger) }));
}

/**
 * A kept connection that breaks at once and without a word, or that says at once that it waited for too long, is taken for one that was
 * closed meanwhile, and the attempt goes on with a fresh one.
 */
function isRepeatable({ bytesSent, endedBy, statusSent, connection }: Attempt, { connections }: Ledger): boolean {
  return ((bytesSent === 0 && endedBy === "fault") || statusSent === 408) && connections[connection - 1]!.requests > 1;
}

/**
 * The attempts of a receipt at one upstream beside what that upstream saw, in pairs; or the reason why they do not match. One that
 * was left at once, that found no connection, or of which we know ourselves that its upstream cannot do it, need not have arrived.
 * Nor one that ran out of time, where the upstream was itself too slow to read a request to its end, or one whose connection it
 * was too slow to close at once: so many were `unread`.
 */
export function matched(
  said: readonly AttemptReceipt[],
  seen: readonly Witnessed[],
  unread = 0,
): readonly (readonly [AttemptReceipt, Attempt])[] | string {
  let more = seen.length - said.length;
  const inOrder = seen.toSorted((one, other) => one.truth.at - other.truth.at);
  const known = inOrder.flatMap(({ truth, repeatable }) => (repeatable && more-- > 0 ? [] : [truth]));
  const arrived = said.filter(({ error }) => !unsent.has(error ?? ""));
  const certain = arrived.filter(({ outcome, error }) => outcome !== "abandoned" && error !== "unsupported");
  const inTime = certain.filter(({ error, tookMs }) => error !== "timed_out" && !(error === "disconnected" && tookMs > unseenMs));
  if (known.length > arrived.length || known.length < Math.max(inTime.length, certain.length - unread)) {
    const claims = said.map(({ outcome, error }) => (error === null ? outcome : `${outcome} (${error})`));
    return `${said.length} attempts: ${claims.join(", ")}; seen were ${known.map(({ behaviour }) => behaviour).join(", ") || "none"}`;
  }
  // Which of several that were left has arrived cannot be told apart: those that were not left come first.
  const pairs = known.length === arrived.length ? arrived : known.length >= certain.length ? certain : inTime;
  // Nor which of several that ran out of time has.
  if (pairs === inTime && known.length > inTime.length) return [];
  return pairs.map((one, at) => [one, known[at]!] as const);
}

/** Who closes a kept connection within this time may not have seen the request. */
const unseenMs = 50;
const unsent: ReadonlySet<string> = new Set(["unreachable", "tls_failed", "connect_timeout"]);

/** What is wrong with a receipt in itself: its sums are those of its attempts. */
export function faultsOfSums(receipt: Receipt): readonly string[] {
  const { attempts } = receipt;
  const wrong: string[] = [];
  const sum = (of: (one: AttemptReceipt) => number | null): number => attempts.reduce((total, one) => total + (of(one) ?? 0), 0);
  const unpriced = attempts.some(({ nanos }) => nanos === null);
  if (receipt.billedNanos !== (unpriced ? null : sum(({ nanos }) => nanos))) wrong.push(`billed ${receipt.billedNanos}`);
  if ((receipt.generatedTokens ?? 0) !== sum(({ completionTokens }) => completionTokens))
    wrong.push(`generated ${receipt.generatedTokens}`);
  if ((receipt.delivered.completionTokens ?? 0) > (receipt.generatedTokens ?? 0)) wrong.push("delivered more than was made");
  if (receipt.state === "unknown") wrong.push("unknown");
  if (receipt.costUncertain !== attempts.some(({ costUncertain }) => costUncertain)) wrong.push("certain of what is not");
  return wrong;
}

/** What a receipt says of one attempt at a chat that its upstream knows better; null where it is right. Figures are priced as `price` says. */
export function faultOfAttempt(said: AttemptReceipt, truth: Attempt, isPriced: boolean): string | null {
  const { promptTokens: prompt, completionTokens: made, nanos, outcome } = said;
  const isMetered = prompt !== null || made !== null;
  const nanosDue = isMetered ? (isPriced ? nanosOf(prompt ?? 0, made ?? 0) : null) : 0;
  if (nanos !== nanosDue) return `${nanos} nanodollars for ${prompt} and ${made} tokens`;
  return outcome === "answered" ? faultOfAnswer(said, truth) : faultOfFailure(said, truth);
}

function faultOfAnswer(said: AttemptReceipt, truth: Attempt): string | null {
  const { promptTokens: prompt, completionTokens: made, estimated, costUncertain, status } = said;
  const reported = cameTooLate(said, truth) ? null : usageOf(truth.usageSent);
  if (costUncertain) return "in doubt about an answer";
  if (truth.statusSent !== 200 || status !== 200) return `an answer with status ${status}, where ${truth.statusSent} was sent`;
  // With its usage, a stream has said all it had to say.
  if (truth.endedBy === "fault" && reported === null) return "an answer, and it broke off";
  if (reported !== null)
    return !estimated && prompt === reported.prompt && made === reported.completion
      ? null
      : `${prompt} and ${made} tokens where ${truth.usageSent} was reported`;
  if (isUnwritten(truth)) return null;
  const due = estimateOf(truth);
  return estimated && made === due ? null : `${made} tokens (estimated: ${estimated}) where ${due} are to be estimated`;
}

/**
 * The usage of a stream left the upstream, which is of this process and may be held up, after the gateway had given up waiting for
 * more than the finished answer.
 */
function cameTooLate({ estimated, tookMs }: AttemptReceipt, { streamed, at, lastSentAt, endedBy }: Attempt): boolean {
  if (!streamed || !estimated) return false;
  return (endedBy === "client_closed" && tookMs > shortestIdleMs) || (lastSentAt ?? 0) - at >= tookMs;
}

/** No test lets the gateway wait for less. */
const shortestIdleMs = 100;

function faultOfFailure(said: AttemptReceipt, truth: Attempt): string | null {
  const { completionTokens: made, estimated, outcome, error, status, tookMs } = said;
  const refused = truth.endedBy === "complete" && truth.statusSent !== null && truth.statusSent >= 300;
  if (outcome === "failed" && refused && !unheard.has(error ?? "")) {
    if (status !== truth.statusSent) return `status ${status}, where ${truth.statusSent} was sent`;
    return made === null && !said.costUncertain ? null : `a refusal is not free: ${error}`;
  }
  const sound = !truth.behaviour.startsWith("fault:") && truth.endedBy === "complete" && !isUnwritten(truth);
  if (outcome === "failed" && sound && !wasLate(said, truth)) return `${error}, and it was sound`;
  if (!said.costUncertain) return made === null && !hasSpoken(truth) ? null : `certain about ${truth.behaviour}`;
  // What was told of a stream that broke off counts; otherwise it is what arrived of what was sent. Of one that tells it twice, a
  // client may have left between the two.
  const reported = usageOf(truth.usageSent);
  const most = estimateOf(truth);
  const toldEarlier = truth.behaviour.includes("usage-twice") && (made ?? 0) <= most;
  if (made !== null && !estimated)
    return made === reported?.completion || toldEarlier ? null : `${made} tokens where ${truth.usageSent} was reported`;
  if (isUnwritten(truth)) return null;
  // Of an answer that comes whole nothing is seen before its end: for one that was left, its time tells.
  const unseen = truth.streamed || error !== "client_gone" ? 0 : Math.ceil((tookMs + 1) / 10);
  // What is large may have arrived before the upstream knows that it was sent.
  const large = Number(/big-event@(\d+)/.exec(truth.behaviour)?.[1] ?? 0);
  const bound = Math.max(most, unseen, large, truth.behaviour.includes("flood") ? truth.bytesSent : 0);
  return (made ?? 0) <= bound ? null : `${made} tokens where at most ${bound} were made`;
}

/** Sound, but when its time was over: most of that the upstream, which is of this process, could not act. */
function wasLate({ error, tookMs }: AttemptReceipt, { at }: Attempt): boolean {
  return error === "timed_out" && heldUpMs(at - tookMs) > tookMs / 2;
}

/** Its refusal need not have been heard. */
const unheard: ReadonlySet<string> = new Set(["timed_out", "disconnected", "bad_response", "interrupted"]);

/** The upstream said what it was given to say, which its ledger does not count. */
function isUnwritten({ choicesSent, bytesSent, statusSent }: Attempt): boolean {
  return statusSent === 200 && bytesSent > 0 && choicesSent.every(({ length }) => length === 0);
}

function hasSpoken({ streamed, choicesSent }: Attempt): boolean {
  return streamed && choicesSent.some(({ length }) => length > 0);
}

/** What the gateway makes of a text whose tokens nobody counted for it: a stream has as many as the pieces it came in. */
function estimateOf({ streamed, choicesSent, thoughtsSent }: Attempt): number {
  const pieces = choicesSent.reduce((sum, { length }) => sum + length, 0);
  return streamed ? pieces + thoughtsSent : estimateTokens(choicesSent.map((choice) => choice.join("")).join(""));
}

function usageOf(sent: string | null): { readonly prompt: number; readonly completion: number } | null {
  if (sent === null || !/^\{"prompt_tokens":\d{1,8},"completion_tokens":\d{1,8},/.test(sent)) return null;
  const usage = JSON.parse(sent) as { readonly prompt_tokens: number; readonly completion_tokens: number };
  return { prompt: usage.prompt_tokens, completion: usage.completion_tokens };
}
