import { failure, type Failure } from "../../operations/failure.ts";
import type { UpstreamHead, Emissions, StreamReader, ReaderTools } from "../dialect.ts";
import { audioShape, AudioTrack, type AudioWish } from "./audio-track.ts";
import { SpeechEventReader } from "./speech-event-reader.ts";

/** Reads spoken audio, whether it comes as bytes or as events, and gives it as the client asked for it. */
export function audioReader(wish: AudioWish, head: UpstreamHead, tools: ReaderTools): StreamReader | Failure {
  const type = head.header("content-type")?.toLowerCase() ?? "";
  if (type.startsWith("text/event-stream")) return new SpeechEventReader(wish, tools);
  const hasOthers = hasOtherSamples(type);
  if (wish.asked === "pcm" && hasOthers) {
    return failure("bad_response", "the answer is samples of another rate or of more than one channel");
  }
  // Samples have no mark of their own: where they were not asked for, only what they are called tells them.
  const samples = !hasOthers && isSamples(type);
  return new AudioReader(samples ? { ...wish, asked: "pcm" } : wish, tools, declaredBytes(head));
}

/** Audio as it is: every byte of the body belongs to it, and the body's end is its own. */
class AudioReader implements StreamReader {
  readonly type: string;
  readonly shape: StreamReader["shape"];
  readonly finished = false;
  readonly pending = null;
  private readonly track: AudioTrack;

  constructor(
    wish: AudioWish,
    tools: ReaderTools,
    readonly declaredBytes: number | null,
  ) {
    ({ type: this.type, shape: this.shape } = audioShape(wish));
    this.track = new AudioTrack(wish, tools, true);
  }

  get hasMore(): boolean {
    return this.track.hasMore;
  }

  push(chunk: Uint8Array): Emissions | Promise<Emissions> {
    if (chunk.length === 0) return this.hasMore ? this.track.push([]) : [];
    return this.track.push([{ audio: chunk, frame: null }]);
  }

  close(): Emissions | Promise<Emissions> {
    return this.track.close({ usage: null, frame: null });
  }

  destroy(): void {
    this.track.destroy();
  }
}

/** Of 16 bits. `audio/L16` requires a rate (RFC 2586), so a type without one means the rate of the OpenAI API. */
function isSamples(type: string): boolean {
  return /^audio\/(?:x-)?(?:pcm|l16)\s*(?:;|$)/.test(type);
}

function declaredBytes(head: UpstreamHead): number | null {
  const length = head.header("content-length");
  return length !== null && /^\d+$/.test(length) ? Number(length) : null;
}

/** Samples say nothing of themselves; at another rate than that of the OpenAI API they would play too slowly or too fast. */
function hasOtherSamples(type: string): boolean {
  const rate = /;\s*(?:sample-?)?rate\s*=\s*"?(\d+)/.exec(type)?.[1];
  const channels = /;\s*channels\s*=\s*"?(\d+)/.exec(type)?.[1];
  return (rate !== undefined && Number(rate) !== 24_000) || (channels !== undefined && Number(channels) !== 1);
}
