import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Emission } from "../../operations/emission.ts";
import type { Emissions, StreamReader } from "../dialect.ts";
import { EventStreamSplitter, type EventStreamMessage } from "./event-stream.ts";

/** Reads the messages of a stream one by one. */
export interface MessageDecoder {
  /** The emissions of one message, in order. A failure is an exception that the upstream sent in-band. */
  read(message: EventStreamMessage): Emissions;
  /** The body has ended: the missing end, or a failure if the stream is incomplete. */
  close(): Emissions;
  /** The failure of this kind, as it is after what has been read. */
  broken(cause: Failure): Failure;
  readonly finished: boolean;
}

/** Reads a stream in the framing of AWS. Good messages that arrive together with a bad one are returned first. */
export class EventStreamReader implements StreamReader {
  readonly type = "text/event-stream; charset=utf-8";
  readonly shape = "events";
  pending: Failure | null = null;
  private readonly splitter = new EventStreamSplitter();
  private ended = false;

  constructor(private readonly decoder: MessageDecoder) {}

  get finished(): boolean {
    return this.decoder.finished;
  }

  push(chunk: Uint8Array): Emissions {
    const { messages, broken } = this.splitter.push(chunk);
    const emissions: Emission[] = [];
    let trouble: Failure | null = null;
    for (const message of messages) {
      const read = this.decoder.read(message);
      if (isFailure(read)) {
        trouble = read;
        break;
      }
      for (const emission of read) emissions.push(emission);
    }
    // What is wrong with the bytes is wrong after all of these messages.
    if (broken !== null) trouble ??= this.decoder.broken(broken);
    if (emissions.some(({ kind }) => kind === "end")) this.ended = true;
    if (trouble === null || this.ended) return emissions;
    if (emissions.length === 0) return trouble;
    this.pending = trouble;
    return emissions;
  }

  close(): Emissions {
    if (this.ended) return none;
    if (this.splitter.hasRest) return this.decoder.broken(failure("bad_response", "the event stream ended inside of a message"));
    return this.decoder.close();
  }

  destroy(): void {}
}

const none: readonly Emission[] = [];
