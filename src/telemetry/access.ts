import type { CallRecord, Try } from "../gateway/record.ts";
import type { LogFields } from "./log.ts";

/** The access line of a call: who, what, where, how long, how much. Never a prompt, an answer or a secret. */
export function accessFields(record: CallRecord): LogFields {
  const answered = record.tries.find((one) => one.outcome === "answered");
  const { usage, failure } = record;
  return {
    id: record.id,
    key: record.keyId,
    operation: record.operation,
    model: record.model === null ? null : short(record.model),
    stream: record.stream,
    status: record.status,
    state: record.state,
    channel: answered?.channel ?? null,
    upstream_model: answered === undefined ? null : short(answered.model),
    attempts: record.tries.length,
    total_ms: milliseconds(record.endedMs - record.startedMs),
    first_content_ms: record.firstContentMs === null ? null : milliseconds(record.firstContentMs),
    prompt_tokens: usage?.promptTokens ?? null,
    completion_tokens: usage?.completionTokens ?? null,
    cached_tokens: usage?.cachedTokens ?? null,
    finish: record.finish === null ? null : short(record.finish),
    bytes_in: record.bytesIn,
    bytes_out: record.bytesOut,
    ...(record.clampedTo === null ? undefined : { max_tokens: record.clampedTo }),
    ...(record.skippedEvents === 0 ? undefined : { skipped_events: record.skippedEvents }),
    ...(record.state === "complete" && record.stream && record.finish === null ? { missing_finish: true } : undefined),
    ...(failure === null ? undefined : { error: failure.kind, detail: short(failure.detail) }),
    ...(record.tries.some((one) => one.outcome !== "answered") ? { tries: record.tries.map(tryFields) } : undefined),
  };
}

function tryFields(one: Try): LogFields {
  return {
    channel: one.channel,
    outcome: one.outcome,
    ms: milliseconds(one.tookMs),
    ...(one.hedge ? { hedge: true } : undefined),
    ...(one.failure === null ? undefined : { error: one.failure.kind, status: one.failure.status, detail: short(one.failure.detail) }),
  };
}

function milliseconds(ms: number): number {
  return Math.round(ms * 100) / 100;
}

const fieldLengthMax = 256;

function short(text: string): string {
  return text.length <= fieldLengthMax ? text : `${text.slice(0, fieldLengthMax)}…`;
}
