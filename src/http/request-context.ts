import type { Gateway } from "../gateway/gateway.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import type { Key } from "../keys/key.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { type Operation, operationSpecs } from "../operations/operation.ts";
import type { ResponseHead } from "../net/server/http-response.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";
import type { Pressure } from "./overload/load-shed.ts";

/** A request that somebody with a key may have sent, and what it is answered with. */
export interface RequestContext {
  readonly request: IncomingRequest;
  /** Of its receipt, should it get one. */
  readonly receiptId: string;
  /** What every answer to this request carries. */
  readonly head: ResponseHead;
  /** What the gateway serves with since it came. */
  readonly snapshot: Snapshot;
  readonly services: ListenerServices;
}

/** What all requests of a listener share. */
export interface ListenerServices {
  readonly gateway: Gateway;
  /** How hard pressed the process is at this moment. */
  readonly pressure: (nowMs: number) => Pressure;
  /** Whether there is memory for so many bytes more. */
  readonly hasRoom: (bytes: number) => boolean;
  readonly onBug: (error: unknown) => void;
}

/** Whether long ones may be worth reading: the model, and so the channel, is only known once they are. */
export function maySplit(key: Key | Failure, { channels }: Snapshot, operation: Operation): boolean {
  const { split } = operationSpecs[operation];
  if (split === null) return false;
  if (!isFailure(key) && key.splits[split.setting]) return true;
  return channels.some(({ capabilities }) => capabilities[split.capability]);
}
