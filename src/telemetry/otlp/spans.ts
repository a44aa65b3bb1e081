import type { AttemptRecord, CallRecord } from "../../gateway/settlement/record.ts";
import type { TraceContext } from "../../gateway/trace.ts";
import { operationSpecs } from "../../operations/operation.ts";
import type { AttemptReceipt, Receipt } from "../../usage/receipt.ts";
import { attributes, nanosText, type OtlpAttribute } from "./attributes.ts";
import { operationName, providerName, spanNames, type GenAiVersion, type SpanNames } from "./conventions.ts";

/** A settled call that is exported. `receipt` is null if it was not admitted. */
export interface TracedCall {
  readonly record: CallRecord;
  readonly receipt: Receipt | null;
  readonly trace: TraceContext;
  /** The difference of the wall clock and the monotonic one, at the end of the call. */
  readonly wallOffsetMs: number;
}

/** A span in the JSON encoding of OTLP (https://github.com/open-telemetry/opentelemetry-proto, trace.proto). */
export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly flags: number;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly OtlpAttribute[];
  readonly status: { readonly code: number; readonly message?: string };
}

/** Whether a call is exported: those that chance or the client chose, all that failed or were saved, and slow ones. */
export function isTraced(
  { state, failure, attempts, firstContentMs, startedMs, endedMs }: CallRecord,
  sampled: boolean,
  slowMs: number,
): boolean {
  if (sampled) return true;
  // What is the client's own fault, such as a wrong key, would let anybody fill the queue.
  if (failure !== null && failure.blame !== "client") return true;
  if (state === "interrupted") return true;
  for (const { outcome } of attempts) if (outcome === "failed") return true;
  return (firstContentMs ?? endedMs - startedMs) >= slowMs;
}

/** The span of a call and those of its attempts. */
export function spansOf(call: TracedCall, version: GenAiVersion): readonly OtlpSpan[] {
  const names = spanNames(version);
  const { record, receipt } = call;
  return [callSpan(call), ...record.attempts.flatMap((attempt, at) => attemptSpan(call, attempt, receipt?.attempts[at] ?? null, names))];
}

function callSpan({ record, receipt, trace, wallOffsetMs }: TracedCall): OtlpSpan {
  const { operation, failure, attempts } = record;
  const name = operationName(operation);
  return {
    ...placeOf(trace, trace.spanId, trace.parentId),
    name: record.model === null ? name : `${name} ${shortName(record.model)}`,
    kind: spanKinds.server,
    startTimeUnixNano: nanosText(record.startedMs + wallOffsetMs),
    endTimeUnixNano: nanosText(record.endedMs + wallOffsetMs),
    attributes: attributes({
      "http.response.status_code": record.status,
      "error.type": failure === null ? null : failure.kind,
      "gen_ai.operation.name": name,
      "gen_ai.request.model": record.model,
      "sluice.request_id": record.id,
      "sluice.receipt_id": receipt?.id ?? null,
      "sluice.key_id": record.keyId,
      "sluice.outcome": receipt === null ? "refused" : record.state,
      "sluice.channel": receipt?.channel ?? null,
      "sluice.attempts": attempts.length,
      "sluice.cost_usd": receipt?.billedNanos == null ? null : { double: receipt.billedNanos * 1e-9 },
      "sluice.time_to_first_content": record.firstContentMs === null ? null : { double: record.firstContentMs / 1000 },
    }),
    // What the client did wrong is no error of a server (https://opentelemetry.io/docs/specs/semconv/http/http-spans/#status).
    status: failure === null || failure.blame === "client" ? unset : { code: statusError, message: failure.kind },
  };
}

/** An attempt of a call that was not traced when it began has no id, and no span. */
function attemptSpan(call: TracedCall, attempt: AttemptRecord, used: AttemptReceipt | null, names: SpanNames): readonly OtlpSpan[] {
  const { record, trace, wallOffsetMs } = call;
  const { spanId, failure, outcome, startedMs } = attempt;
  if (spanId === undefined) return [];
  const name = operationName(record.operation);
  const answered = outcome === "answered";
  const firstChunkMs = record.firstContentMs === null ? null : record.startedMs + record.firstContentMs - startedMs;
  const tokens = operationSpecs[record.operation].unit === "tokens";
  return [
    {
      ...placeOf(trace, spanId, trace.spanId),
      name: `${name} ${shortName(attempt.model)}`,
      kind: spanKinds.client,
      startTimeUnixNano: nanosText(startedMs + wallOffsetMs),
      endTimeUnixNano: nanosText(startedMs + attempt.tookMs + wallOffsetMs),
      attributes: attributes({
        "gen_ai.operation.name": name,
        [names.provider]: providerName(attempt.provider),
        "gen_ai.request.model": attempt.model,
        ...(names.stream === null ? undefined : { [names.stream]: record.stream ? true : null }),
        "gen_ai.response.finish_reasons": answered && record.finish !== null ? [record.finish] : null,
        ...(names.timeToFirstChunk === null || !answered || !record.stream || firstChunkMs === null
          ? undefined
          : { [names.timeToFirstChunk]: { double: Math.max(0, firstChunkMs) / 1000 } }),
        "gen_ai.usage.input_tokens": tokens ? (used?.promptTokens ?? null) : null,
        "gen_ai.usage.output_tokens": tokens ? (used?.completionTokens ?? null) : null,
        ...(names.cacheRead === null ? undefined : { [names.cacheRead]: used?.cachedTokens ?? null }),
        ...(names.reasoning === null ? undefined : { [names.reasoning]: used?.reasoningTokens ?? null }),
        "error.type": outcome === "failed" ? (failure?.kind ?? "_OTHER") : null,
        "http.response.status_code": used?.status ?? null,
        "sluice.channel": attempt.channel,
        "sluice.outcome": outcome,
        "sluice.hedge": attempt.hedge ? true : null,
        "sluice.cost_usd": used?.nanos == null ? null : { double: used.nanos * 1e-9 },
        "sluice.estimated": used?.estimated === true ? true : null,
      }),
      status: outcome === "failed" ? { code: statusError, message: failure?.kind ?? "" } : unset,
    },
  ];
}

function placeOf(
  { traceId, state }: TraceContext,
  spanId: string,
  parentSpanId: string | null,
): Pick<OtlpSpan, "traceId" | "spanId" | "flags"> {
  return {
    traceId,
    spanId,
    ...(parentSpanId === null ? undefined : { parentSpanId }),
    ...(state === null ? undefined : { traceState: state }),
    flags: flagSampled,
  };
}

function shortName(model: string): string {
  return model.length <= nameCharactersMax ? model.toWellFormed() : `${model.slice(0, nameCharactersMax)}…`.toWellFormed();
}

const nameCharactersMax = 100;
const spanKinds = { server: 2, client: 3 };
const statusError = 2;
const unset = { code: 0 };
const flagSampled = 1;
