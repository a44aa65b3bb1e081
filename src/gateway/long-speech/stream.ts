import { transcodingFailure } from "../../dialects/readers/audio-track.ts";
import type { Transcoder } from "../../media/audio.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { JoinedSpeech } from "../../operations/speech/join/joined-speech.ts";
import { speechDeltaFrame, speechDoneFrame } from "../../operations/speech/speech-events.ts";
import type { SpeechQueue } from "./queue.ts";
import { usageOf } from "./record.ts";
import type { Persisted } from "../settlement/record.ts";
import { joined, sentOf } from "../attempt/relay.ts";
import type { OutputSource } from "../call-result.ts";

/**
 * The answer to a long text: the parts are joined, encoded as one, and sent as events if the client asked for that. When it ends for
 * any reason, the parts that are still being spoken are cancelled, and `settled` is called exactly once.
 */
export class LongSpeechStream implements OutputSource {
  private readonly speech = new JoinedSpeech();
  private bytesOut = 0;
  private isOver = false;
  private cause: Failure | null = null;
  unsentBytes: (() => number) | null = null;

  constructor(
    private readonly queue: SpeechQueue,
    private readonly output: { readonly encoder: Transcoder | null; readonly events: boolean },
    private readonly settled: (cause: Failure | null, bytesOut: number) => Persisted,
  ) {}

  async next(): Promise<Uint8Array | Failure | null> {
    try {
      while (!this.isOver) {
        const bytes = await this.nextPiece();
        if (bytes === null || isFailure(bytes)) await this.end(bytes);
        else if (bytes.length > 0) return bytes;
      }
      return this.cause;
    } catch (error) {
      await this.end(transcodingFailure(error, "internal", "the parts could not be put together"));
      return this.cause;
    }
  }

  cancel(reason: Failure): void {
    void this.end(reason);
  }

  /** The bytes for the next piece of audio, which may be none; `null` after the last. */
  private async nextPiece(): Promise<Uint8Array | Failure | null> {
    const piece = await this.queue.next();
    if (this.isOver) return this.cause;
    if (piece === "end") return this.ending();
    if (piece !== "joint" && isFailure(piece)) return interrupted(piece);
    const samples = piece === "joint" ? this.speech.partEnds() : this.speech.push(piece);
    if (isFailure(samples)) return interrupted(samples);
    return this.sent(await this.encoded(samples));
  }

  private async ending(): Promise<Uint8Array | null> {
    const { encoder, events } = this.output;
    const audio = [await this.encoded(this.speech.end())];
    if (encoder !== null) audio.push(await encoder.end());
    if (this.isOver) return null;
    const frames = audio.map((bytes) => this.framed(bytes));
    if (events) frames.push(speechDoneFrame(usageOf(this.queue.records, null)));
    const last = this.counted(joined(frames));
    await this.end(null);
    return last;
  }

  private async encoded(samples: Uint8Array): Promise<Uint8Array> {
    const { encoder } = this.output;
    return encoder === null || samples.length === 0 ? samples : encoder.push(samples);
  }

  /** Nothing is sent after the end. */
  private sent(audio: Uint8Array): Uint8Array | Failure | null {
    return this.isOver ? this.cause : this.counted(this.framed(audio));
  }

  private framed(audio: Uint8Array): Uint8Array {
    return this.output.events && audio.length > 0 ? speechDeltaFrame(audio) : audio;
  }

  private counted(bytes: Uint8Array): Uint8Array {
    this.bytesOut += bytes.length;
    return bytes;
  }

  /** The last bytes are sent after the record was written. */
  private end(cause: Failure | null): Persisted {
    if (this.isOver) return null;
    this.isOver = true;
    this.cause = cause;
    if (cause !== null) this.queue.cancel(cause);
    this.output.encoder?.destroy();
    // An error event is sent after all audio before it, so that only a broken connection loses bytes.
    const isLost = cause !== null && (cause.kind === "client_gone" || !this.output.events);
    return this.settled(cause, isLost ? sentOf(this.bytesOut, this) : this.bytesOut);
  }
}

/** After the first audio, any failure of an upstream is reported as an interruption. */
function interrupted(cause: Failure): Failure {
  return cause.blame === "channel" ? failure("interrupted", cause.detail, { status: cause.status }) : cause;
}
