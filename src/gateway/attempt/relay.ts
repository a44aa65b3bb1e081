import type { Emission } from "../../operations/emission.ts";
import type { AnswerWriter, StreamPlace } from "../../operations/conversation/surface.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { OutputSource } from "../call-result.ts";
import type { Persisted } from "../settlement/record.ts";
import type { EmissionSource, Rescue } from "./rescue.ts";
import { concatBytes } from "../../operations/splice.ts";

/**
 * A committed stream on its way to the client. Frames that arrived together are sent together, and usage is read in passing. However
 * the stream ends, `settled` is called exactly once, and the last bytes wait for the receipt. It does not hold the request, unless
 * another channel may have to continue the answer.
 */
export class Relay implements OutputSource {
  private readonly totals: StreamTotals = { usage: null, finish: null, refused: false, bytesOut: 0, chunks: 0, skippedEvents: 0 };
  private first: readonly Emission[] | null;
  private ended = false;
  private madeWriter: AnswerWriter | null = null;
  private nativePlace: StreamPlace | null = null;
  unsentBytes: (() => number) | null = null;

  constructor(
    private stream: EmissionSource,
    private readonly settled: (failure: Failure | null, totals: Readonly<StreamTotals>) => Persisted,
    /**
     * A failure is reported in-band. If that is impossible (audio), the connection is cut at once, because the last bytes may be the
     * broken ones.
     */
    private readonly tellsBreaks = true,
    private readonly rescue: Rescue | null = null,
    /** Makes the writer of the answer for a client that speaks another API than the upstream; null: every upstream speaks the client's. */
    private readonly makeWriter: (() => AnswerWriter) | null = null,
  ) {
    this.first = stream.first;
    stream.first = [];
  }

  get place(): StreamPlace | null {
    return this.stream.translated ? (this.madeWriter?.place ?? null) : this.nativePlace;
  }

  /** Frames to send, the failure that interrupted them, or `null` after the stream's own end. */
  async next(): Promise<Uint8Array | Failure | null> {
    let { first } = this;
    this.first = null;
    for (; !this.ended; first = null) {
      const emissions = first ?? (await this.stream.next());
      if (emissions === null) return this.endWith(null);
      if (isFailure(emissions)) {
        if (await this.goesOn(emissions)) continue;
        return this.endWith(emissions);
      }
      const bytes = this.pass(emissions);
      if (endsWith(emissions)) await this.end(null);
      if (bytes.length > 0) return bytes;
    }
    return null;
  }

  /** Whether another channel continues the stream. */
  private async goesOn(cause: Failure): Promise<boolean> {
    const { rescue, nativePlace } = this;
    if (rescue === null || this.ended || (nativePlace !== null && nativePlace.resume == null)) return false;
    const successor = await rescue.takeOver(cause);
    if (successor === null) return false;
    if (nativePlace !== null && successor.translated) this.writer().resume?.(nativePlace, rescue.text);
    // The call ended while the other channel was asked.
    if (this.ended) successor.abandon(failure("client_gone", "the call had ended before another channel went on with it"));
    this.stream = successor;
    return true;
  }

  cancel(reason: Failure): void {
    this.stream.abandon(reason);
    void this.end(reason);
  }

  /** Returns the cause, unless the stream had ended before. */
  private async endWith(cause: Failure | null): Promise<Failure | null> {
    const first = !this.ended;
    const persisted = this.end(cause);
    if (cause === null || this.tellsBreaks) await persisted;
    return first ? cause : null;
  }

  private end(cause: Failure | null): Persisted {
    if (this.ended) return null;
    this.ended = true;
    this.rescue?.end();
    // A failure that is reported in-band comes after all that was sent.
    if (cause !== null && (cause.kind === "client_gone" || !this.tellsBreaks)) this.totals.bytesOut = sentOf(this.totals.bytesOut, this);
    return this.settled(cause, this.totals);
  }

  private pass(emissions: readonly Emission[]): Uint8Array {
    this.rescue?.note(emissions);
    // Mostly one emission arrives at a time.
    const bytes = emissions.length === 1 ? (this.frameOf(emissions[0]!) ?? nothing) : this.joinedFrames(emissions);
    this.totals.bytesOut += bytes.length;
    this.totals.chunks += 1;
    return bytes;
  }

  private joinedFrames(emissions: readonly Emission[]): Uint8Array {
    const frames: Uint8Array[] = [];
    for (const emission of emissions) {
      const frame = this.frameOf(emission);
      if (frame !== null) frames.push(frame);
    }
    return joined(frames);
  }

  private frameOf(emission: Emission): Uint8Array | null {
    switch (emission.kind) {
      case "usage":
        this.totals.usage = emission.usage;
        return this.stream.translated ? this.writer().write([{ kind: "usage", usage: emission.usage }]) : emission.frame;
      case "end":
        this.totals.finish = emission.finish;
        return this.stream.translated ? this.writer().end() : emission.frame;
      case "skipped":
        this.totals.skippedEvents++;
        return null;
      case "delta":
        if (emission.output === "refusal") this.totals.refused = true;
        if (this.stream.translated) return this.writer().write(emission.parts ?? []);
        // Another channel may go on with the answer, and the writer has to know then what the client got.
        if (this.rescue !== null && emission.parts !== undefined) this.writer().write(emission.parts);
        if ("place" in emission && emission.place !== undefined) this.nativePlace = emission.place;
        return emission.frame;
    }
  }

  private writer(): AnswerWriter {
    if (this.makeWriter === null) throw new Error("no surface writes this answer");
    return (this.madeWriter ??= this.makeWriter());
  }
}

/** How many of `bytes` were sent. What is still unsent is counted with its framing. */
export function sentOf(bytes: number, { unsentBytes }: Pick<OutputSource, "unsentBytes">): number {
  return Math.max(0, bytes - (unsentBytes?.() ?? 0));
}

function endsWith(emissions: readonly Emission[]): boolean {
  return emissions.at(-1)?.kind === "end";
}

export interface StreamTotals {
  usage: MeteredUsage | null;
  finish: string | null;
  /** The model said that it refuses. */
  refused: boolean;
  bytesOut: number;
  /** How often something arrived from the upstream. */
  chunks: number;
  skippedEvents: number;
}

/** Frames that are adjacent in one buffer are sent as one view of it. Only frames that lie apart are copied. */
export function joined(frames: readonly Uint8Array[]): Uint8Array {
  const first = frames[0];
  if (first === undefined) return nothing;
  if (frames.length === 1) return first;
  let end = first.byteOffset + first.length;
  let length = first.length;
  let adjacent = true;
  for (let at = 1; at < frames.length; at++) {
    const frame = frames[at]!;
    adjacent &&= frame.buffer === first.buffer && frame.byteOffset === end;
    end += frame.length;
    length += frame.length;
  }
  return adjacent ? new Uint8Array(first.buffer, first.byteOffset, length) : concatBytes(frames);
}

const nothing = new Uint8Array(0);
