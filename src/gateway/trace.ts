import type { TraceHeaders } from "./ports.ts";

/** Where a call belongs in a trace (https://www.w3.org/TR/trace-context/). */
export interface TraceContext {
  /** 32 hexadecimal digits: those of the client, or those of the receipt's id, so that one leads to the other. */
  readonly traceId: string;
  /** The span of the client; null if it sent none. */
  readonly parentId: string | null;
  /** The trace is recorded whatever happens: the client says so, or chance does where there is none. */
  readonly sampled: boolean;
  /** The client says that the digits of the trace were drawn by chance, which others sample by (https://www.w3.org/TR/trace-context-2/). */
  readonly random?: boolean;
  /** What other systems wrote beside it, passed on as it came. */
  readonly state: string | null;
  /** Whether upstreams are told. */
  readonly passedOn: boolean;
  /** The path of the client's request, for the span of its call. */
  readonly path: string;
}

export interface TraceRules {
  /** Decides whether a call is recorded whatever happens, if the client does not say. */
  readonly sampler: TraceSampler;
  /** Whether upstreams are told. */
  readonly passedOn: boolean;
}

/**
 * Chooses a share of the calls by chance, and at most so many a second: the traces of calls without any event are worth less the more
 * there are, and each costs as much as a tenth of a call.
 */
export class TraceSampler {
  private secondStartMs = -Infinity;
  private taken = 0;

  constructor(
    private readonly share: number,
    private readonly perSecondMax: number,
    private readonly dice: () => number,
  ) {}

  isSampled(nowMs: number): boolean {
    if (this.dice() >= this.share) return false;
    if (nowMs - this.secondStartMs >= 1000) {
      this.secondStartMs = nowMs;
      this.taken = 0;
    }
    this.taken += 1;
    return this.taken <= this.perSecondMax;
  }
}

/**
 * Reads the headers of a client. A malformed one counts as absent, as the standard wants it. `receiptName` is `req_` and the digits of the
 * receipt's id: every request has it, and its end costs less than the id without its dashes.
 */
export function traceOf(
  receiptName: string,
  request: { readonly parent: string | null; readonly state: string | null; readonly path: string },
  nowMs: number,
  { sampler, passedOn }: TraceRules,
): TraceContext {
  const { parent, state, path } = request;
  const found = parent === null ? null : traceparent.exec(parent);
  if (found === null || !isValid(found))
    return { traceId: receiptName.slice(4), parentId: null, sampled: sampler.isSampled(nowMs), random: false, state: null, passedOn, path };
  const [, , traceId = "", parentId = "", flags = ""] = found;
  const bits = Number.parseInt(flags, 16);
  return {
    traceId,
    parentId,
    sampled: (bits & 1) === 1,
    random: (bits & 2) === 2,
    state: state !== null && state !== "" && state.length <= stateCharactersMax ? state : null,
    passedOn,
    path,
  };
}

function isValid([, version, traceId, parentId, , more]: RegExpExecArray): boolean {
  return version !== "ff" && !(version === "00" && more !== undefined) && traceId !== noTrace && parentId !== noSpan;
}

/**
 * The headers that tell an upstream which span its request belongs to; null if it is not told. Where a channel has such headers of its
 * own, those are sent.
 */
export function traceHeaders(trace: TraceContext, spanId: string, own: Readonly<Record<string, string>>): TraceHeaders | null {
  const { traceId, sampled, random, state, passedOn } = trace;
  if (!passedOn || own["traceparent"] !== undefined) return null;
  const traceparent = `00-${traceId}-${spanId}${random === true ? (sampled ? "-03" : "-02") : sampled ? "-01" : "-00"}`;
  return { traceparent, tracestate: own["tracestate"] === undefined ? state : null };
}

/** The names of these headers. */
export const traceHeaderNames: readonly string[] = ["traceparent", "tracestate"];

/**
 * Makes the ids of spans: 16 hexadecimal digits, not all of them zero. Every attempt needs one, so the random digits are shared by some
 * thousands, which the last digits number.
 */
export class SpanIds {
  private head = "";
  private count = countMax;

  constructor(private readonly dice: () => number) {}

  next(): string {
    if (this.count === countMax) {
      this.head = hex(1 + Math.floor(this.dice() * 0xffff_fffe), 8) + hex(Math.floor(this.dice() * 0x10_0000), 5);
      this.count = 0;
    }
    return this.head + counts[this.count++]!;
  }
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

const countMax = 0x1000;
const counts = Array.from({ length: countMax }, (_, count) => hex(count, 3));

/** A later version may have more behind the flags. */
const traceparent = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const noTrace = "0".repeat(32);
const noSpan = "0".repeat(16);
const stateCharactersMax = 512;
