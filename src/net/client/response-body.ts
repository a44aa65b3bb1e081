import type { Exchange } from "../../gateway/ports.ts";
import type { Failure } from "../../operations/failure.ts";
import { BodyQueue, type BodyQueueLimits, type FlowControl } from "../message/body-queue.ts";
import type { BodySource } from "./reply.ts";

/** The body of a response, as it arrives on a connection. */
export class ResponseBody extends BodyQueue<Failure> implements BodySource {
  constructor(
    connection: FlowControl,
    private readonly exchange: Pick<Exchange, "abort">,
  ) {
    super(connection, limits);
  }

  cancel(): void {
    this.exchange.abort();
  }
}

/**
 * The system delivers up to half a mebibyte at once. Parsed into events, that would take many times as much memory, for a client
 * that may read none of it.
 */
const limits: BodyQueueLimits = { partBytesMax: 32 * 1024, queuedBytesMax: 32 * 1024 };
