import { answeredBy, type CallRecord, type AttemptRecord } from "../gateway/settlement/record.ts";
import { operationSpecs } from "../operations/operation.ts";

/**
 * The access-log line of a call: who, what, where, how long, how much. It never contains a prompt, a response or a secret. Every
 * call writes one, so it is a single object that has all fields; those without a value are undefined, which JSON leaves out.
 */
export function accessLine(record: CallRecord, time: string): AccessLine {
  const { usage, failure, attempts } = record;
  const answered = answeredBy(attempts);
  return {
    time,
    level: "info",
    event: "call",
    id: record.id,
    trace_id: record.trace?.traceId,
    key: short(record.keyId),
    operation: record.operation,
    model: short(record.model),
    stream: record.stream,
    status: record.status,
    state: record.state,
    channel: answered === null ? null : short(answered.channel),
    upstream_model: answered === null ? null : short(answered.model),
    attempts: attempts.length,
    total_ms: milliseconds(record.endedMs - record.startedMs),
    first_content_ms: record.firstContentMs === null ? null : milliseconds(record.firstContentMs),
    prompt_tokens: usage?.promptTokens ?? null,
    completion_tokens: usage?.completionTokens ?? null,
    cached_tokens: usage?.cachedTokens ?? null,
    finish: short(record.finish),
    bytes_in: record.bytesIn,
    bytes_out: record.bytesOut,
    audio_seconds: usage?.audioSeconds ?? undefined,
    audio_estimated: usage?.estimated === true ? true : undefined,
    usage_corrected: usage?.corrected,
    characters: usage?.characters ?? undefined,
    images: usage?.images,
    web_searches: usage?.webSearches,
    max_tokens: record.clampedTo ?? undefined,
    skipped_events: record.skippedEvents > 0 ? record.skippedEvents : undefined,
    missing_finish: isUnfinished(record) ? true : undefined,
    error: failure?.kind,
    detail: failure === null ? undefined : short(failure.detail),
    tries: attempts.length > (answered === null ? 0 : 1) ? attempts.map(attemptFields) : undefined,
  };
}

export interface AccessLine {
  readonly time: string;
  readonly level: "info";
  readonly event: "call";
  readonly [field: string]: unknown;
}

/** A complete stream that did not say why it ended, though streams of its operation do. */
function isUnfinished({ operation, state, stream, finish }: CallRecord): boolean {
  return operationSpecs[operation].hasFinishReason && state === "complete" && stream && finish === null;
}

function attemptFields({ channel, outcome, tookMs, hedge, failure }: AttemptRecord): object {
  return {
    channel,
    outcome,
    ms: milliseconds(tookMs),
    ...(hedge ? { hedge } : undefined),
    ...(failure === null ? undefined : { error: failure.kind, status: failure.status, detail: short(failure.detail) }),
  };
}

function milliseconds(ms: number): number {
  return Math.round(ms * 100) / 100;
}

const lengthMax = 256;

function short<Text extends string | null>(value: Text): Text | string {
  return value === null || value.length <= lengthMax ? value : `${value.slice(0, lengthMax)}…`;
}
