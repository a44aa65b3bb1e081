import { failure, type Failure } from "../../operations/failure.ts";
import type { UpstreamHead, Emissions, StreamReader, ReaderTools } from "../dialect.ts";
import { audioShape, AudioTrack, type AudioConversion } from "./audio-track.ts";
import { withSampleRate } from "./bare-samples.ts";
import { SpeechEventReader } from "./speech-event-reader.ts";

/** Reads speech, sent as bytes or as events, and converts it to what the client asked for. */
export function audioReader(conversion: AudioConversion, head: UpstreamHead, tools: ReaderTools): StreamReader | Failure {
  const type = head.header("content-type")?.toLowerCase() ?? "";
  if (type.startsWith("text/event-stream")) return new SpeechEventReader(conversion, tools);
  const { conversion: read, head: wavHead } = withSampleRate(conversion);
  if (wavHead !== null) return new AudioReader(read, tools, null, wavHead);
  const hasOthers = hasOtherSamples(type);
  if (conversion.asked === "pcm" && hasOthers) {
    return failure("bad_response", "the answer is samples of another rate or of more than one channel");
  }
  // PCM has no header: if it was not requested, only the content type identifies it.
  const samples = !hasOthers && isSamples(type);
  return new AudioReader(samples ? { ...conversion, asked: "pcm" } : conversion, tools, declaredBytes(head));
}

/** Reads audio that is the whole body. */
class AudioReader implements StreamReader {
  readonly type: string;
  readonly shape: StreamReader["shape"];
  readonly finished = false;
  readonly pending = null;
  private readonly track: AudioTrack;

  constructor(
    conversion: AudioConversion,
    tools: ReaderTools,
    readonly declaredBytes: number | null,
    /** Goes before the first bytes. */
    private head: Uint8Array | null = null,
  ) {
    ({ type: this.type, shape: this.shape } = audioShape(conversion));
    this.track = new AudioTrack(conversion, tools, true);
  }

  get hasMore(): boolean {
    return this.track.hasMore;
  }

  push(chunk: Uint8Array): Emissions | Promise<Emissions> {
    if (chunk.length === 0) return this.hasMore ? this.track.push([]) : [];
    const pieces = [{ audio: chunk, frame: null }];
    if (this.head !== null) pieces.unshift({ audio: this.head, frame: null });
    this.head = null;
    return this.track.push(pieces);
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

/** PCM has no header; at another rate than that of the OpenAI API it would be played too slowly or too fast. */
export function hasOtherSamples(type: string): boolean {
  const rate = /;\s*(?:sample-?)?rate\s*=\s*"?(\d+)/.exec(type)?.[1];
  const channels = /;\s*channels\s*=\s*"?(\d+)/.exec(type)?.[1];
  return (rate !== undefined && Number(rate) !== 24_000) || (channels !== undefined && Number(channels) !== 1);
}
