import type { Call } from "../gateway/call.ts";
import type { CallResult } from "../gateway/call-result.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import type { TraceRules } from "../gateway/trace.ts";
import type { Key } from "../keys/key.ts";
import type { ErrorFormat } from "../operations/conversation/surface.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { type Operation, operationSpecs } from "../operations/operation.ts";
import type { ResponseHead } from "../net/server/http-response.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";
import type { Pressure } from "./overload/load-shed.ts";

/** A routed request, and what is needed to serve it. */
export interface RequestContext {
  readonly request: IncomingRequest;
  /** Without its query. */
  readonly path: string;
  /** The id of its receipt, if it gets one. */
  readonly receiptId: string;
  /** The request id that is made of it, which the request has unless the client sent one. */
  readonly receiptName: string;
  /** The headers of its response. */
  readonly head: ResponseHead;
  /** The configuration at the time when the request arrived. */
  readonly snapshot: Snapshot;
  readonly services: ListenerServices;
  /** How the API that the client speaks reports errors. */
  readonly errors: ErrorFormat;
  /** The model that the path names, which counts instead of the one in the body; null if it names none. */
  readonly pathModel: string | null;
}

/** What all requests of a listener share. */
export interface ListenerServices {
  readonly gateway: Gateway;
  /** Serves an admitted call. */
  readonly serve: (call: Call) => Promise<CallResult>;
  /** The current load of the process. */
  readonly pressure: (nowMs: number) => Pressure;
  /** Whether there is memory for so many more bytes. */
  readonly hasRoom: (bytes: number) => boolean;
  /** How calls are traced; null if they are not. */
  readonly traces: () => TraceRules | null;
  readonly onBug: (error: unknown) => void;
  readonly wallMs: () => number;
}

/**
 * Whether input beyond the usual limit may be read, because it may be split: the model, and so the channel, is only known after
 * reading.
 */
export function maySplit(key: Key | Failure, { channels }: Snapshot, operation: Operation): boolean {
  const { split } = operationSpecs[operation];
  if (split === null) return false;
  if (!isFailure(key) && key.splits[split.setting]) return true;
  return channels.some(({ capabilities }) => capabilities[split.capability]);
}
