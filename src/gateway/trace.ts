/** Where a call belongs in a trace (https://www.w3.org/TR/trace-context/). */
export interface TraceContext {
  /** 32 hexadecimal digits: those of the client, or those of the receipt's id, so that one leads to the other. */
  readonly traceId: string;
  /** The span of the call. The spans of its attempts are its children. */
  readonly spanId: string;
  /** The span of the client; null if it sent none. */
  readonly parentId: string | null;
  /** The trace is recorded whatever happens: the client says so, or chance does where there is none. */
  readonly sampled: boolean;
  /** What other systems wrote beside it, passed on as it came. */
  readonly state: string | null;
  /** Whether upstreams are told. */
  readonly passedOn: boolean;
}

export interface TraceRules {
  /** The share of calls that is recorded whatever happens, if the client does not say. */
  readonly share: number;
  /** Whether upstreams are told. */
  readonly passedOn: boolean;
}

/** Reads the headers of a client. A malformed one counts as absent, as the standard wants it. */
export function traceOf(
  receiptId: string,
  headers: { readonly parent: string | null; readonly state: string | null },
  dice: () => number,
  { share, passedOn }: TraceRules,
): TraceContext {
  const spanId = newSpanId(dice);
  const [, version = "", traceId = "", parentId = "", flags = "", more] =
    (headers.parent === null ? null : traceparent.exec(headers.parent)) ?? none;
  const isValid =
    version !== "" && version !== "ff" && !(version === "00" && more !== undefined) && traceId !== noTrace && parentId !== noSpan;
  if (!isValid) return { traceId: withoutDashes(receiptId), spanId, parentId: null, sampled: dice() < share, state: null, passedOn };
  const { state } = headers;
  return {
    traceId,
    spanId,
    parentId,
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
    state: state !== null && state !== "" && state.length <= stateCharactersMax ? state : null,
    passedOn,
  };
}

/** Of a UUID. Cheaper than replacing, and every call needs it. */
function withoutDashes(id: string): string {
  return id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24);
}

const none: readonly (string | undefined)[] = [];

/** The headers that tell an upstream which span its request belongs to. */
export function traceHeaders({ traceId, sampled, state }: TraceContext, spanId: string): Readonly<Record<string, string>> {
  const parent = `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
  return state === null ? { traceparent: parent } : { traceparent: parent, tracestate: state };
}

/** 16 hexadecimal digits, not all of them zero. */
export function newSpanId(dice: () => number): string {
  return half(dice) + half(dice);
}

function half(dice: () => number): string {
  const bits = 1 + Math.floor(dice() * 0xffff_fffe);
  return bytes[bits >>> 24]! + bytes[(bits >>> 16) & 0xff]! + bytes[(bits >>> 8) & 0xff]! + bytes[bits & 0xff]!;
}

const bytes = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** A later version may have more behind the flags. */
const traceparent = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const noTrace = "0".repeat(32);
const noSpan = "0".repeat(16);
const stateCharactersMax = 512;
