import type { Gateway } from "../gateway/gateway.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import type { AnswerHead } from "../net/server/http-answer.ts";
import type { Incoming } from "../net/server/incoming.ts";
import type { Pressure } from "./overload/load-shed.ts";

/** A request that somebody with a key may have sent, and what it is answered with. */
export interface Arrival {
  readonly request: Incoming;
  /** Of its receipt, should it get one. */
  readonly receiptId: string;
  /** What every answer to this request carries. */
  readonly head: AnswerHead;
  /** What the gateway serves with since it came. */
  readonly snapshot: Snapshot;
  readonly edge: Edge;
}

/** What all requests of a listener share. */
export interface Edge {
  readonly gateway: Gateway;
  /** How hard pressed the process is at this moment. */
  readonly pressure: (nowMs: number) => Pressure;
  /** Whether there is memory for so many bytes more. */
  readonly hasRoom: (bytes: number) => boolean;
  readonly onBug: (error: unknown) => void;
}
