import { answeredBy, type CallRecord, type Try } from "../gateway/record.ts";

/**
 * The access line of a call, as JSON without its braces: who, what, where, how long, how much. Never a prompt, an
 * answer or a secret. Every call writes one, so it is put together by hand: a general encoder costs several times more.
 */
export function accessLine(record: CallRecord): string {
  const { usage, failure, tries } = record;
  const answered = answeredBy(tries);
  let line =
    `"id":"${record.id}","key":${text(record.keyId)},"operation":"${record.operation}","model":${text(record.model)},"stream":${record.stream}` +
    `,"status":${record.status},"state":"${record.state}","channel":${text(answered?.channel ?? null)}` +
    `,"upstream_model":${text(answered?.model ?? null)},"attempts":${tries.length}` +
    `,"total_ms":${milliseconds(record.endedMs - record.startedMs)}` +
    `,"first_content_ms":${record.firstContentMs === null ? null : milliseconds(record.firstContentMs)}` +
    `,"prompt_tokens":${usage?.promptTokens ?? null},"completion_tokens":${usage?.completionTokens ?? null}` +
    `,"cached_tokens":${usage?.cachedTokens ?? null},"finish":${text(record.finish)}` +
    `,"bytes_in":${record.bytesIn},"bytes_out":${record.bytesOut}`;
  if (usage?.audioSeconds != null) line += `,"audio_seconds":${usage.audioSeconds}`;
  if (usage?.estimated === true) line += `,"audio_estimated":true`;
  if (usage?.characters != null) line += `,"characters":${usage.characters}`;
  if (record.clampedTo !== null) line += `,"max_tokens":${record.clampedTo}`;
  if (record.skippedEvents > 0) line += `,"skipped_events":${record.skippedEvents}`;
  if (record.operation === "chat" && record.state === "complete" && record.stream && record.finish === null)
    line += `,"missing_finish":true`;
  if (failure !== null) line += `,"error":"${failure.kind}","detail":${text(failure.detail)}`;
  if (answered === null ? tries.length > 0 : tries.length > 1) line += `,"tries":[${tries.map(tryFields).join(",")}]`;
  return line;
}

function tryFields({ channel, outcome, tookMs, hedge, failure }: Try): string {
  return JSON.stringify({
    channel,
    outcome,
    ms: milliseconds(tookMs),
    ...(hedge ? { hedge } : undefined),
    ...(failure === null ? undefined : { error: failure.kind, status: failure.status, detail: short(failure.detail) }),
  });
}

function milliseconds(ms: number): number {
  return Math.round(ms * 100) / 100;
}

const lengthMax = 256;

/** Keys, models and channels are few and come again with every call. */
const quoted = new Map<string, string>();
const quotedMax = 1024;

function text(value: string | null): string {
  if (value === null) return "null";
  const known = quoted.get(value);
  if (known !== undefined) return known;
  const made = JSON.stringify(short(value));
  if (quoted.size < quotedMax && value.length <= lengthMax) quoted.set(value, made);
  return made;
}

function short(value: string): string {
  return value.length <= lengthMax ? value : `${value.slice(0, lengthMax)}…`;
}
