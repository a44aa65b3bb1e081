import type { RunningCall } from "../../gateway/admission/live-calls.ts";
import type { AttemptRecord, CallRecord } from "../../gateway/settlement/record.ts";
import type { Receipt } from "../../usage/receipt.ts";

/** A call in the live view, while it runs and once more when it has ended. It holds no content. */
export interface LiveCall {
  /** The id of its receipt, or its request id if it was not admitted. */
  readonly id: string;
  readonly requestId: string;
  readonly keyId: string | null;
  readonly operation: string;
  readonly model: string | null;
  readonly stream: boolean;
  readonly state: "running" | CallRecord["state"] | "refused";
  readonly status: number | null;
  readonly error: string | null;
  /** On the monotonic clock. */
  readonly startedMs: number;
  readonly tookMs: number;
  readonly firstContentMs: number | null;
  readonly outputTokens: number;
  readonly nanos: number | null;
  readonly attempts: readonly LiveAttempt[];
}

export interface LiveAttempt {
  readonly channel: string;
  readonly model: string;
  readonly afterMs: number;
  readonly tookMs: number;
  readonly outcome: "running" | AttemptRecord["outcome"];
  readonly error: string | null;
  readonly hedge: boolean;
}

export function runningCall({ facts, admission, attempts }: RunningCall, nowMs: number): LiveCall {
  const progresses = attempts.map(({ progress }) => progress);
  const firsts = progresses.flatMap(({ firstContentMs }) => (firstContentMs === null ? [] : [firstContentMs - facts.startedMs]));
  return {
    id: admission.id,
    requestId: facts.id,
    keyId: facts.keyId,
    operation: facts.operation,
    model: facts.model,
    stream: facts.stream,
    state: "running",
    status: null,
    error: null,
    startedMs: facts.startedMs,
    tookMs: nowMs - facts.startedMs,
    firstContentMs: firsts.length === 0 ? null : Math.min(...firsts),
    outputTokens: progresses.reduce((sum, { outputTokens }) => sum + outputTokens, 0),
    nanos: null,
    attempts: progresses.map(({ channel, model, startedMs, endedMs, outcome, error, hedge }) => ({
      channel,
      model,
      afterMs: startedMs - facts.startedMs,
      tookMs: (endedMs ?? nowMs) - startedMs,
      outcome,
      error,
      hedge,
    })),
  };
}

export function endedCall(record: CallRecord, receipt: Receipt | null): LiveCall {
  const { attempts, startedMs } = record;
  return {
    id: receipt?.id ?? record.id,
    requestId: record.id,
    keyId: record.keyId,
    operation: record.operation,
    model: record.model,
    stream: record.stream,
    state: receipt === null ? "refused" : record.state,
    status: record.status,
    error: record.failure === null ? null : (record.failure.code ?? record.failure.kind),
    startedMs,
    tookMs: record.endedMs - startedMs,
    firstContentMs: record.firstContentMs,
    outputTokens: attempts.reduce((sum, { outputTokens, usage }) => sum + (usage?.completionTokens ?? outputTokens), 0),
    nanos: receipt?.billedNanos ?? null,
    attempts: attempts.map((attempt) => ({
      channel: attempt.channel,
      model: attempt.model,
      afterMs: attempt.startedMs - startedMs,
      tookMs: attempt.tookMs,
      outcome: attempt.outcome,
      error: attempt.failure?.kind ?? null,
      hedge: attempt.hedge,
    })),
  };
}
