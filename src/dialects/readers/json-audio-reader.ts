import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { TokenUsage } from "../../operations/usage.ts";
import type { Emissions, ReaderTools, StreamReader } from "../dialect.ts";
import { parseUntrusted } from "../untrusted.ts";
import { audioShape, AudioTrack, type AudioConversion } from "./audio-track.ts";
import { withSampleRate } from "./bare-samples.ts";
import { concatBytes } from "../../operations/splice.ts";

/** The audio in a JSON document, decoded. */
export interface JsonAudio {
  readonly audio: Uint8Array;
  readonly usage: TokenUsage | null;
  /** The rate of bare samples, where it is not that of the OpenAI API. */
  readonly sampleRate?: number;
}

/** Reads audio that is a part of a JSON document. There is nothing to pass on before all of it has come. */
export class JsonAudioReader implements StreamReader {
  readonly type: string;
  readonly shape: StreamReader["shape"];
  readonly finished = false;
  readonly pending = null;
  private chunks: Uint8Array[] = [];
  private length = 0;
  private track: AudioTrack | null = null;

  constructor(
    private readonly conversion: AudioConversion,
    private readonly tools: ReaderTools,
    /** Finds the audio in the document, which is undefined if the body is not JSON. */
    private readonly find: (document: unknown) => JsonAudio | Failure,
  ) {
    ({ type: this.type, shape: this.shape } = audioShape(conversion));
  }

  get hasMore(): boolean {
    return this.track?.hasMore ?? false;
  }

  push(chunk: Uint8Array): Emissions | Promise<Emissions> {
    if (chunk.length === 0) return this.hasMore && this.track !== null ? this.track.push([]) : [];
    this.length += chunk.length;
    if (this.length > documentBytesMax) return failure("bad_response", "the answer is too large");
    this.chunks.push(chunk);
    return [];
  }

  close(): Emissions | Promise<Emissions> {
    const body = concatBytes(this.chunks);
    this.chunks = [];
    const found = this.find(parseUntrusted(decoder.decode(body), body));
    if (isFailure(found)) return found;
    const { usage, sampleRate } = found;
    const { conversion, head } = withSampleRate(sampleRate === undefined ? this.conversion : { ...this.conversion, sampleRate });
    const audio = head === null ? found.audio : concatBytes([head, found.audio]);
    this.track = new AudioTrack(conversion, this.tools, true);
    return this.track.whole(audio, { usage, frame: null });
  }

  destroy(): void {
    this.chunks = [];
    this.track?.destroy();
  }
}

/** Fifteen minutes of bare samples in base64. */
const documentBytesMax = 64 * 1024 * 1024;

const decoder = new TextDecoder();
