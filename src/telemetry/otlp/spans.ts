import { lostRace, type AttemptRecord, type CallRecord } from "../../gateway/settlement/record.ts";
import type { TraceContext } from "../../gateway/trace.ts";
import { operationSpecs } from "../../operations/operation.ts";
import type { AttemptReceipt, Receipt } from "../../usage/receipt.ts";
import { addAttribute, nanosText, type DoubleAttribute, type OtlpAttribute } from "./attributes.ts";
import { operationName, providerName, spanNames, type GenAiVersion, type SpanNames } from "./conventions.ts";

/** A settled call that is exported. `receipt` is null if it was not admitted. */
export interface TracedCall {
  readonly record: CallRecord;
  readonly receipt: Receipt | null;
  readonly trace: TraceContext;
  /** Of the call. The spans of its attempts are its children. */
  readonly spanId: string;
  /** The difference of the wall clock and the monotonic one, at the end of the call. */
  readonly wallOffsetMs: number;
}

/** A span in the JSON encoding of OTLP (https://github.com/open-telemetry/opentelemetry-proto, trace.proto). */
export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly traceState: string | undefined;
  readonly flags: number;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly OtlpAttribute[];
  readonly status: { readonly code: number; readonly message?: string };
}

/**
 * Why a call is exported: for what happened to it, if it failed, was saved or was slow, or because chance or the client chose it; null if it
 * is not. What is the client's own fault would let anybody fill the queue: for whoever has no valid key, neither chance nor the headers count.
 */
export function exportedFor(record: CallRecord, sampled: boolean, slowMs: number): "event" | "sample" | null {
  if (isEventful(record, slowMs)) return "event";
  return sampled && record.keyId !== null ? "sample" : null;
}

function isEventful({ state, failure, attempts, firstContentMs, startedMs, endedMs }: CallRecord, slowMs: number): boolean {
  if (failure !== null && failure.blame !== "client") return true;
  if (state === "interrupted") return true;
  for (const { outcome } of attempts) if (outcome === "failed") return true;
  return (firstContentMs ?? endedMs - startedMs) >= slowMs;
}

/** The span of a call and those of its attempts. `scheme`: of the listener. */
export function spansOf(call: TracedCall, version: GenAiVersion, scheme: "http" | "https"): readonly OtlpSpan[] {
  const names = spanNames(version);
  const { record, receipt } = call;
  const spans = [callSpan(call, scheme)];
  for (const [at, attempt] of record.attempts.entries()) {
    // An attempt of a call that was not traced when it began has no id, and no span.
    if (attempt.spanId !== undefined) spans.push(attemptSpan(call, attempt, attempt.spanId, receipt?.attempts[at] ?? null, names));
  }
  return spans;
}

function callSpan({ record, receipt, trace, spanId, wallOffsetMs }: TracedCall, scheme: string): OtlpSpan {
  const { operation, failure, attempts } = record;
  const name = operationName(operation);
  const list: OtlpAttribute[] = [];
  // Every route of a call has this method.
  addAttribute(list, "http.request.method", "POST");
  addAttribute(list, "url.scheme", scheme);
  addAttribute(list, "url.path", trace.path);
  addAttribute(list, "http.response.status_code", record.status);
  addAttribute(list, "error.type", failure?.kind);
  addAttribute(list, "gen_ai.operation.name", name);
  addAttribute(list, "gen_ai.request.model", record.model);
  addAttribute(list, "sluice.request_id", record.id);
  addAttribute(list, "sluice.receipt_id", receipt?.id);
  addAttribute(list, "sluice.key_id", record.keyId);
  addAttribute(list, "sluice.outcome", receipt === null ? "refused" : record.state);
  addAttribute(list, "sluice.channel", receipt?.channel);
  addAttribute(list, "sluice.attempts", attempts.length);
  addAttribute(list, "sluice.cost_usd", usd(receipt?.billedNanos));
  addAttribute(list, "sluice.time_to_first_content", record.firstContentMs === null ? null : { double: record.firstContentMs / 1000 });
  return {
    traceId: trace.traceId,
    spanId,
    parentSpanId: trace.parentId ?? undefined,
    traceState: trace.state ?? undefined,
    flags: flagSampled,
    // Backends group by the name, and the model of a request that was refused is whatever the client wrote.
    name: record.model === null || receipt === null ? name : `${name} ${shortName(record.model)}`,
    kind: spanKinds.server,
    startTimeUnixNano: nanosText(record.startedMs + wallOffsetMs),
    endTimeUnixNano: nanosText(record.endedMs + wallOffsetMs),
    attributes: list,
    // What the client did wrong is no error of a server (https://opentelemetry.io/docs/specs/semconv/http/http-spans/#status).
    status: failure === null || failure.blame === "client" ? unset : { code: statusError, message: failure.kind },
  };
}

function attemptSpan(call: TracedCall, attempt: AttemptRecord, spanId: string, used: AttemptReceipt | null, names: SpanNames): OtlpSpan {
  const { record, trace, wallOffsetMs } = call;
  const { startedMs } = attempt;
  const error = errorOf(attempt);
  return {
    traceId: trace.traceId,
    spanId,
    parentSpanId: call.spanId,
    traceState: trace.state ?? undefined,
    flags: flagSampled,
    name: `${operationName(record.operation)} ${shortName(attempt.model)}`,
    kind: spanKinds.client,
    startTimeUnixNano: nanosText(startedMs + wallOffsetMs),
    endTimeUnixNano: nanosText(startedMs + attempt.tookMs + wallOffsetMs),
    attributes: attemptAttributes(record, attempt, used, names),
    status: error === null ? unset : { code: statusError, message: error },
  };
}

function attemptAttributes(
  record: CallRecord,
  attempt: AttemptRecord,
  used: AttemptReceipt | null,
  names: SpanNames,
): readonly OtlpAttribute[] {
  const { outcome } = attempt;
  const answered = outcome === "answered";
  const error = errorOf(attempt);
  const list: OtlpAttribute[] = [];
  addAttribute(list, "gen_ai.operation.name", operationName(record.operation));
  addAttribute(list, names.provider, providerName(attempt.provider));
  addAttribute(list, "gen_ai.request.model", attempt.model);
  if (names.stream !== null && record.stream) addAttribute(list, names.stream, true);
  addAttribute(list, "gen_ai.response.model", attempt.usage?.servedModel);
  addServer(list, attempt.host);
  if (answered && record.finish !== null) addAttribute(list, "gen_ai.response.finish_reasons", [record.finish]);
  // As the conventions call it where an answer ended before it could say why.
  else if (error !== null && attempt.outputTokens > 0) addAttribute(list, "gen_ai.response.finish_reasons", ["error"]);
  if (names.timeToFirstChunk !== null) {
    const firstChunkMs = firstChunkMsOf(record, attempt);
    if (firstChunkMs !== null) addAttribute(list, names.timeToFirstChunk, { double: firstChunkMs / 1000 });
  }
  if (operationSpecs[record.operation].unit === "tokens") {
    addAttribute(list, "gen_ai.usage.input_tokens", used?.promptTokens);
    addAttribute(list, "gen_ai.usage.output_tokens", used?.completionTokens);
  }
  if (names.cacheRead !== null) addAttribute(list, names.cacheRead, used?.cachedTokens);
  if (names.cacheWrite !== null) addAttribute(list, names.cacheWrite, attempt.usage?.cacheWriteTokens);
  if (names.reasoning !== null) addAttribute(list, names.reasoning, used?.reasoningTokens);
  addAttribute(list, "error.type", error);
  addAttribute(list, "http.response.status_code", used?.status);
  addAttribute(list, "sluice.channel", attempt.channel);
  addAttribute(list, "sluice.outcome", outcome);
  if (attempt.hedge) addAttribute(list, "sluice.hedge", true);
  addAttribute(list, "sluice.cost_usd", usd(used?.nanos));
  if (used?.estimated === true) addAttribute(list, "sluice.estimated", true);
  return list;
}

/** A model of this machine has no port. */
function addServer(list: OtlpAttribute[], host: string): void {
  const colon = host.lastIndexOf(":");
  if (colon < 0) return;
  // The attribute is an IP address; the brackets belong to URLs (RFC 3986, section 3.2.2).
  addAttribute(list, "server.address", host.slice(0, colon).replace(/^\[(.*)\]$/, "$1"));
  addAttribute(list, "server.port", Number(host.slice(colon + 1)));
}

/** The error that an attempt ended with. The gateway's own deadline is one; a lost race is none, and neither is a client that left. */
export function errorOf({ outcome, failure }: AttemptRecord): string | null {
  if (outcome === "failed") return failure?.kind ?? "_OTHER";
  return failure !== null && failure !== lostRace && failure.blame === "gateway" ? failure.kind : null;
}

/** How long after its beginning an attempt that answered had its first content; null if another one had it, in an answer of several parts. */
export function firstChunkMsOf({ stream, startedMs, firstContentMs }: CallRecord, attempt: AttemptRecord): number | null {
  if (!stream || firstContentMs === null || attempt.outcome !== "answered") return null;
  const firstMs = startedMs + firstContentMs - attempt.startedMs;
  return firstMs < 0 ? null : firstMs;
}

function usd(nanos: number | null | undefined): DoubleAttribute | null {
  return nanos === null || nanos === undefined ? null : { double: nanos * 1e-9 };
}

function shortName(model: string): string {
  return model.length <= nameCharactersMax ? model.toWellFormed() : `${model.slice(0, nameCharactersMax)}…`.toWellFormed();
}

const nameCharactersMax = 100;
const spanKinds = { server: 2, client: 3 };
const statusError = 2;
const unset = { code: 0 };
const flagSampled = 1;
