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
 * A long text on its way to the client: its parts joined, encoded as one, and in events where they are wanted. However
 * it ends, everything that is still being spoken ends with it, and `settled` is told exactly once.
 */
export class LongSpeechStream implements OutputSource {
  private readonly speech = new JoinedSpeech();
  private bytesOut = 0;
  private over = false;
  private cause: Failure | null = null;
  unsentBytes: (() => number) | null = null;

  constructor(
    private readonly queue: SpeechQueue,
    private readonly look: { readonly encoder: Transcoder | null; readonly events: boolean },
    private readonly settled: (cause: Failure | null, bytesOut: number) => Persisted,
  ) {}

  async next(): Promise<Uint8Array | Failure | null> {
    try {
      while (!this.over) {
        const bytes = await this.made();
        if (bytes === null || isFailure(bytes)) await this.end(bytes);
        else if (bytes.length > 0) return bytes;
      }
      return this.cause;
    } catch (error) {
      await this.end(failure("internal", `the parts could not be put together: ${error instanceof Error ? error.message : String(error)}`));
      return this.cause;
    }
  }

  cancel(reason: Failure): void {
    void this.end(reason);
  }

  /** What the next piece of audio brings, which may be nothing yet; `null` when the last has left. */
  private async made(): Promise<Uint8Array | Failure | null> {
    const piece = await this.queue.next();
    if (this.over) return this.cause;
    if (piece === "end") return this.ending();
    if (piece !== "joint" && isFailure(piece)) return interrupted(piece);
    const samples = piece === "joint" ? this.speech.partEnds() : this.speech.push(piece);
    if (isFailure(samples)) return interrupted(samples);
    return this.sent(await this.encoded(samples));
  }

  private async ending(): Promise<Uint8Array | null> {
    const { encoder, events } = this.look;
    const audio = [await this.encoded(this.speech.end())];
    if (encoder !== null) audio.push(await encoder.end());
    if (this.over) return null;
    const frames = audio.map((bytes) => this.framed(bytes));
    if (events) frames.push(speechDoneFrame(usageOf(this.queue.records, null)));
    const last = this.counted(joined(frames));
    await this.end(null);
    return last;
  }

  private async encoded(samples: Uint8Array): Promise<Uint8Array> {
    const { encoder } = this.look;
    return encoder === null || samples.length === 0 ? samples : encoder.push(samples);
  }

  /** Nothing leaves once it has ended. */
  private sent(audio: Uint8Array): Uint8Array | Failure | null {
    return this.over ? this.cause : this.counted(this.framed(audio));
  }

  private framed(audio: Uint8Array): Uint8Array {
    return this.look.events && audio.length > 0 ? speechDeltaFrame(audio) : audio;
  }

  private counted(bytes: Uint8Array): Uint8Array {
    this.bytesOut += bytes.length;
    return bytes;
  }

  /** The last bytes wait for what is made of it. */
  private end(cause: Failure | null): Persisted {
    if (this.over) return null;
    this.over = true;
    this.cause = cause;
    if (cause !== null) this.queue.cancel(cause);
    this.look.encoder?.destroy();
    // What breaks in words is told behind all that came before it.
    const isLost = cause !== null && (cause.kind === "client_gone" || !this.look.events);
    return this.settled(cause, isLost ? sentOf(this.bytesOut, this) : this.bytesOut);
  }
}

/** After the first sound, what went wrong with an upstream is told as one thing: it broke off. */
function interrupted(cause: Failure): Failure {
  return cause.blame === "channel" ? failure("interrupted", cause.detail, { status: cause.status }) : cause;
}
